"""Tests of krift doctor."""
