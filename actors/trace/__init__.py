"""The trace: typed events, the hybrid logical clock, and the files that both are kept in."""
