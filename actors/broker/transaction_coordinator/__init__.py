"""The transaction coordinator: what a broker knows and decides of transactions whose ids hash to partitions of
``__transaction_state`` that it leads (``core/.../coordinator/transaction``, ``transaction-coordinator``)."""
