"""Unit tests of the broker."""
