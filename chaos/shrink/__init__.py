"""From a scenario that fails to the smallest one that still fails the same way."""
