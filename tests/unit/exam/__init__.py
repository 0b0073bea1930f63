"""Parts of the exam, without Spark."""
