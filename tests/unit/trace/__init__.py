"""Tests of the trace's formats."""
