"""The figures in ``docs/performance.md``: each measured beside a yardstick, in turns, in one run."""
