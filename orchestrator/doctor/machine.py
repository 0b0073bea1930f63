"""What the machine has: cores, memory, disk, files, and a loopback to talk over."""

from __future__ import annotations

import os
import resource
import shutil
import socket
from pathlib import Path

from chaos.errors import InputError
from orchestrator.clusters.local_ray import LOOPBACK, OBJECT_STORE_BYTES
from orchestrator.doctor.base import Check, ok, problem, warning
from orchestrator.run_dir import check_root

CORES = 2
MEMORY_BYTES = 4 << 30
"""A live run with three voters, three brokers and their clients takes about 2 GiB with Ray and the JVM."""
DISK_BYTES = 1 << 30
FULL = 0.95
"""Ray refuses to work on a disk that is fuller."""
FILES = 1024
MEMINFO = Path("/proc/meminfo")
SHARED = Path("/dev/shm")
RAY_FILES = Path("/tmp")


def check_cores() -> Check:
    """Cores that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores < CORES:
        remedy = "live runs will be slow, and Kafka's timeouts may expire; sim runs need one core"
        return warning("cores", str(cores), remedy)
    return ok("cores", str(cores))


def check_memory(meminfo: Path = MEMINFO) -> Check:
    """Memory that is free, as far as Linux tells."""
    try:
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
        free = int(fields["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError, IndexError):
        return warning("memory", "this system does not report it", f"have {MEMORY_BYTES >> 30} GiB free")
    found = f"{free / (1 << 30):.1f} GiB free"
    if free < MEMORY_BYTES:
        return warning("memory", found, f"free {MEMORY_BYTES >> 30} GiB for a live run of the usual size")
    return ok("memory", found)


def check_shared_memory(place: Path = SHARED) -> Check:
    """Where Ray keeps its object store."""
    try:
        free = shutil.disk_usage(place).free
    except OSError as error:
        return warning("shared memory", f"{place}: {error.strerror}", "Ray will use /tmp in its place, and warn")
    found = f"{free >> 20:,} MiB free in {place}"
    if free < OBJECT_STORE_BYTES:
        remedy = f"Ray needs {OBJECT_STORE_BYTES >> 20} MiB there (containers: --shm-size), or uses /tmp, and warns"
        return warning("shared memory", found, remedy)
    return ok("shared memory", found)


def check_disk(out: Path, ray_files: Path = RAY_FILES) -> Check:
    """Room for runs, and for Ray's own files."""
    worst = ok("disk", "")
    told = []
    for place in (_existing(out), ray_files):
        usage = shutil.disk_usage(place)
        told.append(f"{usage.free / (1 << 30):.1f} GiB free in {place}")
        if usage.free < DISK_BYTES:
            worst = problem("disk", "", f"free {DISK_BYTES >> 30} GiB there")
        elif usage.used > FULL * usage.total and worst.status == "ok":
            worst = warning("disk", "", "Ray does not work well on a disk that is more than 95 % full")
    return Check("disk", worst.status, ", ".join(told), worst.remedy)


def _existing(path: Path) -> Path:
    """The path, or the nearest of its parents that is there."""
    whole = path.absolute()
    return next(place for place in (whole, *whole.parents) if place.exists())


def check_out(out: Path) -> Check:
    """Whether runs can be written."""
    try:
        check_root(out)
    except InputError as error:
        return problem("runs", error.mistakes[0].problem, f"--out with {error.mistakes[0].expected}")
    return ok("runs", f"can be written to {out}/")


def check_files() -> Check:
    """How many files a process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES:
        return warning("open files", f"at most {soft:,} a process", f"ulimit -n {FILES}")
    return ok("open files", "no limit" if soft == resource.RLIM_INFINITY else f"at most {soft:,} a process")


def check_loopback(address: str = LOOPBACK) -> Check:
    """Whether a process can serve on the loopback and be reached there."""
    try:
        with socket.create_server((address, 0)) as server, socket.create_connection(server.getsockname(), 5):
            return ok("loopback", f"{address} can be served on and reached")
    except OSError as error:
        remedy = "live nodes use the loopback: check the rules of this container or firewall"
        return problem("loopback", f"{address}: {error.strerror or error}", remedy)
