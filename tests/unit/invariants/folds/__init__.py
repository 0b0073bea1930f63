"""Tests of the invariants in ``folds``."""
