"""The promises under test, each a keyed fold over the ordered trace."""
