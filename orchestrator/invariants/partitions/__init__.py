"""Replication, the ISR and the controllers that decide about them (P)."""
