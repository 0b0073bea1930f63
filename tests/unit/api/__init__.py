"""Tests of what programs import."""
