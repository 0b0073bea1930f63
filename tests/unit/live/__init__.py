"""The live runtime without Ray."""
