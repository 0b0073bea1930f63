"""Tests of Krift, in one folder for each purpose."""
