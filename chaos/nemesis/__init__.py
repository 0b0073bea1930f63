"""Nemeses: seeded generators of whole scenarios, drawn from weights over everything that a scenario can say."""
