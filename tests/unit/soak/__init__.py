"""Unit tests of soaks."""
