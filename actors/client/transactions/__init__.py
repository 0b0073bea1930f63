"""A producer's side of its transactions (``producer/internals/TransactionManager.java``)."""
