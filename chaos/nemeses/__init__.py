"""The library of nemeses: one readable file of weights for each purpose."""
