"""The command ``krift``: finds the subcommand, and turns errors into one message and an exit code.

Exit codes: 0 what the scenario expects is what happened; 1 it is not; 2 the command or its input is wrong;
3 inconclusive; 4 the run could not be carried out; 130 interrupted.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
import threading
from typing import Any, NoReturn

import click

from chaos.errors import KriftError, nearest
from orchestrator.generated import check_generated
from orchestrator.interrupts import INTERRUPTED
from orchestrator.version import __version__

COMMANDS = {
    "run": "Run a scenario, break the cluster, and judge what survived.",
    "check": "Check the invariants again, over an existing run.",
    "replay": "Repeat every step of a run and compare every effect.",
    "compare": "Run the same seeds under two settings, and compare.",
    "exam": "Test the checks: would they catch planted bugs, and accept legal oddities?",
    "explore": "Explore every order of events of voters or brokers, within bounds.",
    "campaign": "Do thousands of runs on Spark, and summarize them.",
    "soak": "Run one cluster under faults for hours or days, and check it on the way.",
    "shrink": "Reduce a failing run to the smallest scenario that still fails.",
    "incidents": "List the library of incidents, or show one.",
    "report": "Show the verdict of a run, or write it as an HTML page.",
    "export": "Write the trace of a run for Perfetto, ShiViz or Jepsen's checkers.",
    "k8s": "Write a scenario's faults as experiments of Chaos Mesh.",
    "doctor": "Check this machine, and say how to fix what is missing.",
}
"""Subcommand -> its one line of help, so that ``krift --help`` imports none of them."""

AGAIN_S = 0.05
"""How long after a signal was lost it is sent again."""


class LazyGroup(click.Group):
    """Imports the module of a subcommand only when it is used: Ray and Spark take seconds to import."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"orchestrator.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0] if args else ""
        if word and not word.startswith("-") and word not in COMMANDS:
            near = nearest(word, COMMANDS)
            hint = f"; did you mean {near}?" if near else ""
            ctx.fail(f"there is no command {word!r}; expected one of {', '.join(COMMANDS)}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True)
@click.version_option(__version__, prog_name="krift")
@click.pass_context
def cli(ctx: click.Context) -> int:
    """Krift emulates a Kafka cluster, breaks it on schedule, and proves from the nodes' own logs what survived.

    To begin with: krift run kip-207
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        return 2
    return 0


def fail(message: str, code: int) -> NoReturn:
    """End with one error on stderr."""
    from orchestrator.report.console import printable

    try:
        click.echo(f"krift: {printable(message)}", err=True)
    except OSError:  # nobody listens any more
        _drop(2)
    _flush()
    sys.exit(code)


def main() -> NoReturn:
    """Entry point of the command."""
    _open_streams()
    hear_signals()
    _silence_libraries()
    try:
        check_generated()
        code = cli(prog_name="krift", standalone_mode=False)
    except click.UsageError as error:
        name = error.ctx.command_path if error.ctx else "krift"
        fail(f"{error.format_message()} ({name} --help)", 2)
    except click.ClickException as error:
        fail(error.format_message(), 2)
    except KriftError as error:
        fail(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        fail("interrupted; nothing is left running", INTERRUPTED)
    except BrokenPipeError:  # while help was printed: pages see to it themselves
        _drop(1)
        code = 0
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        fail(f"{place}{error.strerror or error}", 4)
    _flush()
    sys.exit(code if isinstance(code, int) else 0)


def hear_signals() -> None:
    """A SIGTERM, or a terminal that is closed, ends a run like a Ctrl-C: faults end, and nothing is left running.

    Also where a shell script started the command in the background, which makes it deaf to SIGINT.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, _as_interrupt)
    sys.unraisablehook = _on_unraisable


def _as_interrupt(_number: int, _frame: Any) -> None:
    signal.raise_signal(signal.SIGINT)


def _on_unraisable(lost: sys.UnraisableHookArgs) -> None:
    """Python drops what is raised within a destructor or a weak reference's callback. A Ctrl-C that came just then is
    sent again, once that is left."""
    if lost.exc_type is KeyboardInterrupt:
        threading.Timer(AGAIN_S, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(lost)


def _silence_libraries() -> None:
    """What libraries log comes back as an exception, too; of a Ctrl-C in the middle of a call to Spark they would log a
    traceback. Without any handler Python prints it."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())


def _open_streams() -> None:
    """See that there are three standard streams, whatever the shell has closed, and that every text can be written."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            assert opened == number, "the lowest free descriptor is taken"
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _flush() -> None:
    for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            _drop(descriptor)


def _drop(descriptor: int) -> None:
    from orchestrator.report.console import drop

    drop(descriptor)
