"""Tests of the client nodes against brokers that the test plays by hand."""
