"""The clients: producer, consumer and admin, and the workloads that they carry out."""
