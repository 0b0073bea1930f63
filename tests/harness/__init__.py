"""What several tests share: small nodes and conductors that stand in for the real ones."""
