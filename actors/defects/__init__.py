"""Bugs that Krift plants on purpose: what they are, by name; the nodes have the code."""
