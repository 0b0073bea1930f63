"""Situations: patterns that line up two or three faults on one step of the protocol."""
