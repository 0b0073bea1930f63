"""Tests of the quorum's parts."""
