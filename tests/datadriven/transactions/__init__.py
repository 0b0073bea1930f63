"""Transcripts of the transaction coordinator, and of what partitions do for it."""
