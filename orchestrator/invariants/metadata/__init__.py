"""What brokers and clients know of the cluster (M)."""
