"""ListOffsets and positions (H)."""
