"""Parts of campaigns, without Spark."""
