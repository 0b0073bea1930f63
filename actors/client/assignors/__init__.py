"""Assignors: how the leading member of a group shares out partitions (``ConsumerPartitionAssignor.java``)."""
