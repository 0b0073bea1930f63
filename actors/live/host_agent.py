"""The hand of a run on one Ray node: starts node processes there, signals them by process id, fetches what they wrote.

A stopped process hears no Ray call, and a killed one must not get the chance to tidy up; so faults on processes are
signals, and go to processes that this agent started and to nothing else.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

import msgspec
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.control import Barrier, DiskLoss
from actors.live.actor import NodeActor
from actors.live.certificates import new_request, why_unusable
from actors.live.disk_loss import lose
from actors.live.identity import Identity, read_identity, write_identity
from actors.live.journal_writer import SUFFIX as JOURNAL_SUFFIX, old_segments
from actors.live.setup import Opened, Setup
from actors.live.writer import CHUNK_AGE_MAX_US, CLOSED, OPEN
from actors.log.segments import first_lost_offsets
from actors.node.spec import NodeSpec, with_new_directory

Signal = Literal["kill", "stop", "continue"]

_SIGNALS: dict[Signal, signal.Signals] = {
    "kill": signal.SIGKILL,
    "stop": signal.SIGSTOP,
    "continue": signal.SIGCONT,
}
_SETTLED_S = 5.0
_SEGMENTS_IN_TIME = 4
_SOAK_CHUNK_AGE_US = 10_000_000
_CHUNKS_IN_TIME = 60
"""A soak has chunks for hours, of which its checks list those that are kept at each look: fewer, larger ones."""
"""Segments of a journal within the time that it is kept: they expire as a whole, so that it needs little more."""


class RunSetup(msgspec.Struct, frozen=True):
    """What all nodes of a run share. ``directory``: the run's, if the driver's file system is this host's; else ""
    and a temporary one is used. factory, matcher: as in ``Setup``. keep_s: how long journals stay."""

    run: str
    namespace: str
    seed: int
    host: str
    directory: str
    factory: str
    matcher: str
    barriers: list[Barrier]
    keep_s: float = math.inf


class Process(msgspec.Struct):
    """A process that this agent started. ``born``: its start time, which tells it from a later one of its id."""

    pid: int
    born: int


class HostAgent:
    """An async Ray actor; one per Ray node and run. Raises ProcessLookupError for a process that is gone."""

    def __init__(self, setup: RunSetup) -> None:
        self._setup = setup
        self._scratch = Path(tempfile.mkdtemp(prefix="krift-")).resolve()
        self._root = Path(setup.directory) if setup.directory else self._scratch
        # Made once: Ray, and everybody who gets a handle, keeps each class that was ever made.
        self._node_class: Any = ray.remote(NodeActor)
        self._actors: dict[str, Any] = {}
        self._processes: dict[str, Process] = {}
        self._incarnations: dict[str, int] = {}
        self._wipes: dict[str, int] = {}
        self._wiped: set[str] = set()
        self._key = b""
        self._certificates = ""

    async def request_certificate(self) -> bytes:
        """Make a key for this host, which stays on it; the request to certify it, as PEM."""
        self._key, request = new_request()
        return request

    async def take_certificate(self, authority: bytes, certificate: bytes) -> None:
        """The answer to the request, and who signed it, as PEM: nodes that are started from now on use TLS."""
        folder = self._scratch / "certificates"
        write_identity(folder, Identity(authority, certificate, self._key))
        self._certificates = str(folder)

    async def read_certificate(self, folder: str, nodes: list[str]) -> str:
        """Take the certificate that this host has in a folder, for these nodes. Why that cannot be, "" if it can."""
        try:
            identity = read_identity(Path(folder))
        except OSError as error:
            return f"{error.filename}: {error.strerror}"
        if why := why_unusable(identity, nodes):
            return f"{folder}: {why}"
        self._certificates = folder
        return ""

    async def start_node(self, spec: NodeSpec, clean: bool) -> tuple[Any, int, str]:
        """A new process with the next incarnation of a node, ready to start; ``clean``: the last one shut itself down
        in good order. Returns the actor's handle, the incarnation, and the address it serves on ("" for a client)."""
        incarnation = self._incarnations.get(spec.name, -1) + 1
        self._incarnations[spec.name] = incarnation
        wipes = self._wipes.get(spec.name, 0)
        setup = Setup(
            self._setup.run,
            with_new_directory(spec, wipes) if wipes else spec,
            incarnation,
            self._setup.seed,
            str(self._root / "logs" / f"node={spec.name}"),
            str(self._root / "journals" / f"node={spec.name}"),
            str(self._disk(spec.name)),
            self._setup.host,
            self._setup.factory,
            self._setup.matcher,
            self._setup.barriers,
            clean=clean,
            wiped=spec.name in self._wiped,
            certificates=self._certificates,
            journal_age_max_s=self._setup.keep_s / _SEGMENTS_IN_TIME,
            chunk_age_max_us=_chunk_age_us(self._setup.keep_s),
        )
        self._wiped.discard(spec.name)
        actor = self._create(spec.name, setup)
        opened: Opened = await actor.open.remote()
        self._actors[spec.name] = actor
        self._processes[spec.name] = Process(opened.pid, _born(opened.pid))
        return actor, incarnation, f"{self._setup.host}:{opened.port}" if opened.port else ""

    async def watch(self, barriers: list[Barrier]) -> None:
        """Nodes that are started from now on stop at these events."""
        self._setup = msgspec.structs.replace(self._setup, barriers=barriers)

    async def drop(self, paths: list[str]) -> None:
        """Delete what was fetched."""
        for path in paths:
            full = (self._root / path).resolve()
            assert full.is_relative_to(self._root.resolve()), path
            full.unlink(missing_ok=True)

    async def expire(self) -> None:
        """Delete segments of journals that were written longer ago than they are kept."""
        for folder in (self._root / "journals").glob("*"):
            for path in old_segments(folder, time.time() - self._setup.keep_s):
                path.unlink(missing_ok=True)

    def _disk(self, name: str) -> Path:
        return self._scratch / "disks" / name

    async def lose(self, name: str, loss: DiskLoss) -> dict[str, int]:
        """Take away from the disk of a node that was killed what goes in this loss; returns, per partition that lost
        any, the first lost offset."""
        assert _born(self._processes[name].pid) != self._processes[name].born, f"{name} is alive"
        if loss == "wiped":
            self._wipes[name] = self._wipes.get(name, 0) + 1
            self._wiped.add(name)
        return first_lost_offsets(lose(self._disk(name), loss))

    def _create(self, name: str, setup: Setup) -> Any:
        """The named actor on this Ray node."""
        here = ray.get_runtime_context().get_node_id()
        options: dict[str, Any] = {
            "name": name,
            "namespace": self._setup.namespace,
            "num_cpus": 0,
            "max_restarts": 0,
            "max_task_retries": 0,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(here, soft=False),
        }
        return self._node_class.options(**options).remote(setup)

    async def signal(self, name: str, which: Signal) -> None:
        """Send a signal to the process of a node and return when it has taken effect; a killed node's name is free
        for its next incarnation then."""
        process = self._processes[name]
        if _born(process.pid) != process.born:
            raise ProcessLookupError(f"the process of {name} is gone")
        os.kill(process.pid, _SIGNALS[which])
        deadline = asyncio.get_running_loop().time() + _SETTLED_S
        while not _in_effect(process, which):
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"signal {which} to {name} took no effect in {_SETTLED_S} s")
            await asyncio.sleep(0.001)
        if which == "kill":
            # Ray keeps the name of an actor whose process just vanished.
            ray.kill(self._actors.pop(name))

    async def files(self) -> list[tuple[str, int]]:
        """What nodes wrote for the driver: paths relative to the run's directory, and sizes."""
        paths = [path for folder in ("logs", "journals") for path in sorted((self._root / folder).glob("*/*"))]
        return [
            (path.relative_to(self._root).as_posix(), path.stat().st_size)
            for path in paths
            if path.suffix in (OPEN, CLOSED, JOURNAL_SUFFIX)
        ]

    async def read(self, path: str, offset: int, size: int) -> bytes:
        """A piece of one of ``files``."""
        full = (self._root / path).resolve()
        assert full.is_relative_to(self._root.resolve()), path
        with full.open("rb") as file:
            file.seek(offset)
            return file.read(size)

    async def host(self) -> str:
        """The address that nodes here serve on."""
        return self._setup.host

    async def kill_all(self) -> None:
        """Kill every process that is left, stopped ones too."""
        for process in self._processes.values():
            if _born(process.pid) == process.born:
                os.kill(process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Kill what is left, and remove the nodes' disks and what was fetched."""
        await self.kill_all()
        shutil.rmtree(self._scratch, ignore_errors=True)


def _stat(pid: int) -> list[str]:
    """Fields of /proc/<pid>/stat from the third (state) on; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _born(pid: int) -> int:
    """When a process started, in clock ticks since boot; -1: there is none, or it is dead."""
    stat = _stat(pid)
    return int(stat[19]) if stat and stat[0] not in "ZX" else -1


def _in_effect(process: Process, which: Signal) -> bool:
    if which == "kill":
        return _born(process.pid) != process.born
    stat = _stat(process.pid)
    return bool(stat) and (stat[0] in "Tt") == (which == "stop")


def _chunk_age_us(keep_s: float) -> int:
    """When a chunk is old, in a run whose logs are kept for so long."""
    if math.isinf(keep_s):
        return CHUNK_AGE_MAX_US
    return min(_SOAK_CHUNK_AGE_US, int(keep_s * 1e6) // _CHUNKS_IN_TIME)
