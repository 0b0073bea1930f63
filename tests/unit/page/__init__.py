"""What a page of a run is drawn from."""
