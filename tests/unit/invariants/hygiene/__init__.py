"""Tests of the invariants in ``hygiene``."""
