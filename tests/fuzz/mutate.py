"""Makes a hostile file of a sound one."""

from __future__ import annotations

import random
from collections.abc import Sequence

TOKENS = [
    *(b"{", b"}", b"[", b"]", b'"', b":", b",", b"\n", b"\t", b"'", b"#", b"\x00", b"\xff\xfe"),
    *(
        b"- ",
        b"? ",
        b"|",
        b"&a ",
        b"*a",
        b"<<: *a",
        b"---\n",
        b"...\n",
        b"%YAML 1.1\n",
        b"!!python/object/apply:os.system ",
    ),
    *(b"null", b"true", b"-1", b"0", b"1e309", b"-0.0", b"NaN", b"9" * 400, b"18446744073709551616", b"0x10", b"1:30"),
    *(b"../../../../etc/passwd", b"/dev/zero", b"$(id)", b"{{7*7}}", b"\\u0000", b"\\ud800", b"\xed\xa0\x80"),
    *("\u202e".encode(), b"[" * 5000, b'{"a":' * 5000, b"a: " * 200, b"x" * 100_000),
]
"""What parsers stumble over."""


def mutated(draws: random.Random, sample: bytes, others: Sequence[bytes]) -> bytes:
    """A sample after one to six changes, some of which take a piece of another sample."""
    data = bytearray(sample)
    for _ in range(draws.choice((1, 1, 1, 2, 3, 6))):
        begin = draws.randrange(len(data) + 1)
        end = min(len(data), begin + draws.choice((1, 2, 8, 64, 1024)))
        match draws.randrange(8):
            case 0 if data:
                data[min(begin, len(data) - 1)] = draws.randrange(256)
            case 1:
                del data[begin:end]
            case 2:
                data[begin:begin] = data[begin:end] * draws.choice((1, 2, 50))
            case 3 | 4:
                data[begin:begin] = draws.choice(TOKENS)
            case 5:
                data[begin:end] = draws.choice(TOKENS)
            case 6:
                other = draws.choice(others)
                start = draws.randrange(len(other) + 1)
                data[begin:end] = other[start : start + draws.choice((1, 16, 256))]
            case _:
                del data[draws.randrange(len(data) + 1) :]
    return bytes(data)
