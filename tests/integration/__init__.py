"""Real Ray, gRPC and Spark, on loopback."""
