"""Transcripts of the controller."""
