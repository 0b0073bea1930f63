"""Tests of the invariants in ``partitions``."""
