"""The incident library: one scenario file for each incident that Krift can make happen again."""
