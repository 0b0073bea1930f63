"""Tests of tiered storage at a broker."""
