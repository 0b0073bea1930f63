"""Scenarios, faults, and the conductor of a run."""
