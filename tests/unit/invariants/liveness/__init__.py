"""Tests of the invariants in ``liveness``."""
