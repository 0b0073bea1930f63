"""Collection of the nodes' traces into one ordered dataset."""
