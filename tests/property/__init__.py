"""Properties that hold for every input, checked with generated ones."""
