"""The story of a run, and what it is made of."""
