"""Runs in the formats of other tools: each module turns a trace, event by event, into pieces of a text."""
