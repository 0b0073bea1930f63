"""Shrinking, on toys: no run is carried out."""
