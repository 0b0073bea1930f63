"""Reports to look at: one HTML file that holds all it needs, of a run, a campaign, a comparison or an exam."""
