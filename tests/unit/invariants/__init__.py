"""Tests of the invariants, on hand-written traces."""
