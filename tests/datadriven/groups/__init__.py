"""Transcripts of the group coordinator."""
