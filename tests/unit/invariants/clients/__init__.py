"""Tests of the invariants in ``clients``."""
