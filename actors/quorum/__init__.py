"""The KRaft quorum: roles, their transitions, and the voters' replicated metadata log."""
