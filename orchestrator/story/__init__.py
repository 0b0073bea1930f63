"""What happened in a run, in words: the story of all of it, and the way to a single violation."""
