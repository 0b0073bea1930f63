"""What the group coordinator and the transaction coordinator have in common (Kafka: ``coordinator-common``)."""
