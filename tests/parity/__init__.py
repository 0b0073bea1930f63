"""The same scenario on both runtimes, with the same outcome."""
