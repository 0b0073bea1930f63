"""A replica's log: its batches, leader epochs, producer state and snapshots."""
