"""Shrinking a failing run: what it is to fail the same way, candidates run here or on Spark, and the file with its
story."""
