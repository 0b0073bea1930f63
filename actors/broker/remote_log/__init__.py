"""Tiered storage at a broker (``storage/.../server/log/remote/storage``)."""
