"""Unit tests of actors.log."""
