"""Makes a run's logs whole: fetches chunks from where they were written, closes what was left open, and says of the
killed incarnations that they are dead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from actors.live.writer import CLOSED, OPEN
from actors.trace.events import NodeDown, Stamped
from actors.trace.lines import Line, decode_line, encode_line

LOGS = "logs"
PIECE_BYTES = 4 << 20

ReadPiece = Callable[[str, int, int], Awaitable[bytes]]
"""Reads (path, offset, size) where a file was written."""


async def fetch(directory: Path, files: Iterable[tuple[str, int]], read: ReadPiece) -> None:
    """Copy files (path relative to the run's directory, size) into ``directory``; one that lies there in full, since
    both sides see the same storage, is left alone."""
    for name, size in files:
        path = (directory / name).resolve()
        assert path.is_relative_to(directory.resolve()), name
        if path.exists() and path.stat().st_size == size:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            while file.tell() < size:
                piece = await read(name, file.tell(), min(PIECE_BYTES, size - file.tell()))
                assert piece, f"{name} became shorter"
                file.write(piece)


def close_open_chunks(directory: Path) -> int:
    """Give open chunks their final name, without a torn last line; returns how many were torn. For after the run."""
    torn = 0
    for path in sorted((directory / LOGS).glob(f"*/*{OPEN}")):
        torn += _close(path)
    return torn


def _close(path: Path) -> bool:
    """Whether the last line was torn."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        with path.open("r+b") as file:
            file.truncate(whole)
    path.rename(path.with_suffix(CLOSED))
    return whole < len(data)


def chunk_order(path: Path) -> tuple[int, int]:
    """(incarnation, number) of a chunk."""
    incarnation, _, number = path.name.partition(".")[0].partition("-")
    return int(incarnation), int(number)


def incarnations(directory: Path, node: str = "*") -> dict[tuple[str, int], list[Path]]:
    """The closed chunks of each (node, incarnation), in order; of one node alone, if it is named."""
    found: dict[tuple[str, int], list[Path]] = {}
    for folder in sorted((directory / LOGS).glob(f"node={node}")):
        for path in sorted(folder.glob(f"*{CLOSED}"), key=chunk_order):
            name = folder.name.removeprefix("node=")
            found.setdefault((name, chunk_order(path)[0]), []).append(path)
    return found


def bury_the_killed(directory: Path, driver: str, ends: Mapping[str, NodeDown]) -> list[str]:
    """Write ``node.down``, one tick after its last event, for each incarnation that could not: as ``ends`` has it by
    "node/incarnation", else a crash. Returns their "node/incarnation". The driver has no such event."""
    buried = []
    for (node, incarnation), chunks in incarnations(directory).items():
        last = last_line(chunks)
        if node == driver or last is None or last.type == "node.down":
            continue
        end = ends.get(f"{node}/{incarnation}", NodeDown("crash"))
        down = Stamped(last.run, node, incarnation, last.seq + 1, last.wall, last.logical + 1, "", "", end)
        number = chunk_order(chunks[-1])[1] + 1
        (chunks[-1].parent / f"{incarnation}-{number}{CLOSED}").write_bytes(encode_line(down))
        buried.append(f"{node}/{incarnation}")
    return buried


def bury(directory: Path, node: str, incarnation: int, end: NodeDown) -> None:
    """The same for one incarnation, as soon as it is dead. Its last line may be torn."""
    for path in (directory / LOGS / f"node={node}").glob(f"{incarnation}-*{OPEN}"):
        _close(path)
    chunks = incarnations(directory, node).get((node, incarnation), [])
    last = last_line(chunks)
    if last is None or last.type == "node.down":
        return
    down = Stamped(last.run, node, incarnation, last.seq + 1, last.wall, last.logical + 1, "", "", end)
    number = chunk_order(chunks[-1])[1] + 1
    (chunks[-1].parent / f"{incarnation}-{number}{CLOSED}").write_bytes(encode_line(down))


def last_line(chunks: list[Path]) -> Line | None:
    """The last event of an incarnation; None if it recorded none."""
    for path in reversed(chunks):
        lines = path.read_bytes().splitlines()
        if lines:
            return decode_line(lines[-1])
    return None
