"""Kafka's exponential back-off (``clients/.../common/utils/ExponentialBackoff.java``) as a range for a timer."""

from __future__ import annotations


def backoff_range(initial_ms: int, max_ms: int, failures: int) -> tuple[int, int]:
    """Shortest and longest pause after ``failures`` earlier failures (0: the first pause), in milliseconds.

    The pause doubles per failure and is jittered by 20 % either way; ``max_ms`` bounds it, jitter included. Where
    there is no room to grow, because ``max_ms`` is not above ``initial_ms``, it is ``max_ms`` without jitter.
    """
    if max_ms <= initial_ms:
        return max_ms, max_ms
    term = min(initial_ms << min(failures, 30), max_ms)
    return term * 8 // 10, min(term * 12 // 10, max_ms)
