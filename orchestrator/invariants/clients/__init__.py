"""What clients send, are told and read (C, T)."""
