"""Tests of the invariants in ``tiers``."""
