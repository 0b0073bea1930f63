"""Thousands of runs in the sim, spread over Spark executors: what campaigns, comparisons and the exam are made of."""
