"""The run and its trace themselves (X)."""
