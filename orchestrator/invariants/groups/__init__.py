"""What groups promise, and what they have committed (O)."""
