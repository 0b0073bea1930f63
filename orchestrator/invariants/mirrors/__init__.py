"""What several invariants know of the cluster, built from its trace."""
