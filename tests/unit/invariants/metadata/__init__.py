"""Tests of the invariants in ``metadata``."""
