"""Transcripts of the remote store."""
