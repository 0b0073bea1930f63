"""Tests of the repository itself: its layers, sizes and habits."""
