"""Tests of the invariants in ``groups``."""
