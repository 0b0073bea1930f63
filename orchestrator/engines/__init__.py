"""Three ways to run the same folds: in process, as a Spark batch, as a Spark stream."""
