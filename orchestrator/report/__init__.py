"""A verdict as text for people, and the schemas of the files for programs."""
