"""Transcripts of one broker among scripted peers."""
