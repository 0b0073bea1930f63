"""The invariants of groups and of what they have committed: O1 to O7."""
