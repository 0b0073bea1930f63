"""Files that are kept compressed (Zstandard)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from orchestrator.files import write_bytes
from orchestrator.run_dir import RESTORE, why, wrong

PIECE_BYTES = 1 << 20


def write_compressed(path: Path, data: bytes) -> None:
    """Write a file, as ``write_bytes`` does, for ``read_compressed``. Raises NotWritten."""
    write_bytes(path, pa.compress(data, codec="zstd", asbytes=True))


def read_compressed(path: Path, bytes_max: int) -> bytes:
    """What ``write_compressed`` was given. Raises InputError if the file cannot be read, is damaged, or has more than
    ``bytes_max`` in it."""
    try:
        with pa.OSFile(str(path)) as file, pa.CompressedInputStream(file, "zstd") as stream:
            data = bytearray()
            while len(data) <= bytes_max and (piece := stream.read(PIECE_BYTES)):
                data += piece
    except pa.ArrowException as error:
        raise wrong(path, f"damaged: {error}", RESTORE) from None
    except OSError as error:
        raise wrong(path, f"cannot be read, or damaged: {why(error)}", RESTORE) from None
    if len(data) > bytes_max:
        raise wrong(path, f"larger than {bytes_max >> 20} MiB", RESTORE)
    return bytes(data)
