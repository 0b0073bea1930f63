"""A verdict as text, JSON, JUnit and one self-contained HTML page."""
