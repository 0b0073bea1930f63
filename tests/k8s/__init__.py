"""The manifests, checked without a cluster."""
