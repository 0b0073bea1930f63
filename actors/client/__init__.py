"""Clients: the producer, the consumer and the prober of ListOffsets, and what they share."""
