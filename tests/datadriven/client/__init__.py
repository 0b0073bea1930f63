"""Transcripts of the client nodes."""
