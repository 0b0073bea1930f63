"""Tests of the exploration of the voters."""
