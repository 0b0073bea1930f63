"""Where runs take place."""
