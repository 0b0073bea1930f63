"""Tests of the invariants in ``mirrors``."""
