"""Tests of the invariants in ``offsets``."""
