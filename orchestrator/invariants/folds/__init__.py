"""What every invariant is made of: folds, routes, windows, and what is said of what they find."""
