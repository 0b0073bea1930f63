"""Krift's pods on Kubernetes, as other tools see them."""
