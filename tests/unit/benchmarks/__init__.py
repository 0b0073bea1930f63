"""Tests of the parts of the benchmarks that measure nothing."""
