"""Where the nodes run: in this process, on a local Ray, on Spark's executors or on a remote Ray cluster."""
