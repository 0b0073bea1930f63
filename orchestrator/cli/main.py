"""The command ``krift``: finds the subcommand, and turns errors into one line and an exit code.

Exit codes: 0 what the scenario expects is what happened; 1 it is not; 2 the command or its input is wrong;
3 inconclusive; 4 the run could not be carried out; 130 interrupted.
"""

from __future__ import annotations

import importlib
import sys
from typing import NoReturn

import click

from chaos.errors import KriftError
from orchestrator.version import __version__

COMMANDS = {
    "run": "Run a scenario, break the cluster, and judge what survived.",
    "check": "Check the invariants again, over an existing run.",
    "replay": "Step a run again and compare every effect.",
    "incidents": "List the library of incidents, or show one.",
    "report": "Show the verdict of a run.",
}
"""Subcommand -> its one line of help, so that ``krift --help`` imports none of them."""


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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="krift")
def cli() -> None:
    """Krift emulates a Kafka cluster, breaks it on schedule, and proves from the nodes' own logs what survived."""


def fail(message: str, code: int) -> NoReturn:
    """End with one error on stderr."""
    click.echo(f"krift: {message}", err=True)
    sys.exit(code)


def main() -> NoReturn:
    """Entry point of the command."""
    try:
        code = cli(standalone_mode=False)
    except click.UsageError as error:
        hint = f" (krift {error.ctx.info_name} --help)" if error.ctx and error.ctx.parent else " (krift --help)"
        fail(error.format_message() + hint, 2)
    except click.ClickException as error:
        fail(error.format_message(), 2)
    except KriftError as error:
        fail(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        fail("interrupted; faults ended, what was recorded is kept", 130)
    sys.exit(code if isinstance(code, int) else 0)
