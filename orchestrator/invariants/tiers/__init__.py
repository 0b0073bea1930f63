"""Tiered storage (R)."""
