"""The broker: replicates partitions, answers clients, and coordinates groups and transactions."""
