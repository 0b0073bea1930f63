"""Hostile files: whatever they hold, the outcome is a clear error or a sound value. ``python -m tests.fuzz``."""
