"""Tests of the invariants in ``quorum``."""
