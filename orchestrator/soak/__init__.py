"""Soaks: one cluster under faults for hours or days, checked meanwhile, in bounded memory and on a bounded disk."""
