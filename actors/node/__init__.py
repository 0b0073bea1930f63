"""The contract between a node and its runtime: step(now, event) returns effects."""
