"""The sim runtime: queue, network, disk, timers, crash and pause, barriers, digests."""
