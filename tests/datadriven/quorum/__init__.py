"""Transcripts of the KRaft quorum."""
