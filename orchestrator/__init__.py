"""Runs scenarios on clusters, collects traces, judges invariants and reports the verdict."""
