"""Coverage points, without a run."""
