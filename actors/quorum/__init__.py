"""The KRaft quorum: voters and observers of the metadata log."""
