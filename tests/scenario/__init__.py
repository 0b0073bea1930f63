"""Whole scenarios, run and judged."""
