"""The metadata quorum (Q)."""
