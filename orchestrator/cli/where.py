"""Options of where live nodes run, and what keeps outsiders from them."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from chaos.errors import InputError, Mistake
from orchestrator.cli.asked import Mistakes
from orchestrator.clusters.ray_address import ADDRESS_EXPECTED, parse_address
from orchestrator.clusters.ray_on_spark import DEFAULT_MASTER, MASTER_EXPECTED, is_elsewhere, is_master
from orchestrator.clusters.security import IN_THE_CLEAR, MADE_FOR_THE_RUN, TLS_EXPECTED, is_loopback

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

LOCAL = "local"
SPARK = "spark"


class Where(msgspec.Struct, frozen=True):
    """Where live nodes run. ``cluster``: "local", "spark", or the address of a Ray cluster. ``master``: Spark's, where
    cluster is "spark", None for one on this machine. ``tls``: as given, None if it was not. ``insecure``: as given."""

    cluster: str
    master: str | None
    tls: str | None
    insecure: bool

    @property
    def address(self) -> str:
        """Of the Ray cluster to use, "" for one of our own."""
        return "" if self.cluster in (LOCAL, SPARK) else self.cluster

    @property
    def spark_master(self) -> str:
        """Of the Spark that carries Ray, "" for none."""
        return (self.master or DEFAULT_MASTER) if self.cluster == SPARK else ""

    @property
    def is_elsewhere(self) -> bool:
        """Whether nodes may be on other machines."""
        if self.cluster == SPARK:
            return is_elsewhere(self.spark_master)
        place = parse_address(self.cluster)
        return place is not None and not is_loopback(place[0])

    @property
    def words(self) -> str:
        """The options as they were given, with a space before each."""
        given = [("--cluster", None if self.cluster == LOCAL else self.cluster), ("--master", self.master)]
        text = "".join(f" {name} {shlex.quote(value)}" for name, value in [*given, ("--tls", self.tls)] if value)
        return f"{text} --insecure" if self.insecure else text

    def check(self, runtime: str, mistakes: Mistakes) -> None:
        """Note what is wrong with it."""
        mistakes.attempt(lambda: self._check_cluster(runtime))
        mistakes.attempt(lambda: self._check_tls(runtime))

    def _check_cluster(self, runtime: str) -> None:
        if self.master is not None and self.cluster != SPARK:
            raise _wrong("--master", "nothing of Spark's carries nodes", "--cluster spark with it")
        if self.master is not None and not is_master(self.master):
            raise _wrong("--master", f"{self.master!r} cannot carry Ray nodes", MASTER_EXPECTED)
        if self.cluster == LOCAL:
            return
        if self.cluster != SPARK and parse_address(self.cluster) is None:
            raise _wrong("--cluster", f"{self.cluster!r} is no cluster", f"local, spark, {ADDRESS_EXPECTED}")
        if runtime != "live":
            raise _wrong("--cluster", "a sim run needs no cluster", "--runtime live with it")

    def _check_tls(self, runtime: str) -> None:
        if self.tls is None:
            return
        if runtime != "live":
            raise _wrong("--tls", "a sim run sends nothing over a network", "--runtime live with it")
        if self.tls == IN_THE_CLEAR and self.is_elsewhere and not self.insecure:
            problem = "anybody who reaches the other machines could send requests to the nodes"
            raise _wrong("--tls", problem, f"{MADE_FOR_THE_RUN}, a directory with certificates, or --insecure with it")
        named = self.tls not in (IN_THE_CLEAR, MADE_FOR_THE_RUN)
        if named and not self.is_elsewhere and not Path(self.tls).is_dir():
            raise _wrong("--tls", f"{self.tls!r} is no directory", TLS_EXPECTED)


def _wrong(option: str, problem: str, expected: str) -> InputError:
    return InputError([Mistake(option, 0, "", problem, expected)])


def where_options(command: CommandT) -> CommandT:
    """Gives a command ``--cluster``, ``--master``, ``--tls`` and ``--insecure``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.option(
        "--cluster",
        default=LOCAL,
        show_default=True,
        metavar="local|spark|ADDRESS",
        help="Where live nodes run: local, a new Ray cluster on this machine; spark, one on the executors of a Spark "
        "session; or an existing one, ray://HOST:PORT or HOST:PORT.",
    ),
    click.option(
        "--master",
        metavar="URL",
        help=f"With --cluster spark: Spark's master; {DEFAULT_MASTER}, on this machine, if not given.",
    ),
    click.option(
        "--tls",
        metavar="off|run|DIRECTORY",
        help="TLS between live nodes, with certificates made for the run, or with those that each machine has in "
        "DIRECTORY (ca.crt, tls.crt, tls.key). If not given: off on this machine, run on others.",
    ),
    click.option(
        "--insecure",
        is_flag=True,
        help="Use other machines even without protection: with --tls off, or with a Ray that asks for no token.",
    ),
)
