"""Unit tests of actors.node."""
