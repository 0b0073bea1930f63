"""Pages of runs in a real browser."""
