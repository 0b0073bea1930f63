"""Is this machine ready for Krift: one check a module's function, each with what it found and what to do about it."""
