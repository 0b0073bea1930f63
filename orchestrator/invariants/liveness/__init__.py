"""What the cluster gets back to in the end (L)."""
