"""``krift explore``: every order of what can happen to the voters, within bounds."""

from __future__ import annotations

import click
import msgspec

from actors.defects.catalogue import DEFECTS
from actors.features import FEATURES
from chaos.errors import InputError, Mistake, nearest
from chaos.words import some
from orchestrator.cli.status_line import StatusLine
from orchestrator.exploration.models import MODELS, Model, must_see, with_voters
from orchestrator.exploration.search import MARKS, Progress, Search
from orchestrator.exploration.story import evidence, tell
from orchestrator.interrupts import Interrupts
from orchestrator.report.console import page
from orchestrator.report.exploration import Explored, exploration_json, print_exploration

STATES_MAX = 20_000_000
EXIT = {"held": 0, "violated": 1, "inconclusive": 3, "interrupted": 130}
_Count = click.IntRange(0, 9)


@click.command("explore")
@click.argument("model", type=click.Choice(list(MODELS)))
@click.option("--defect", "defects", multiple=True, metavar="NAME", help="Switch on a deliberate bug of the quorum.")
@click.option("--set", "settings", multiple=True, metavar="FEATURE=VALUE", help="Override a feature, e.g. kip-996=off.")
@click.option("--states", type=click.IntRange(1, STATES_MAX), help="Stop at so many states; 300,000 if not given.")
@click.option("--epochs", type=click.IntRange(1, 9), help="The highest epoch.")
@click.option("--timeouts", type=_Count, help="Timers that may fire; this and the next three replace the budgets.")
@click.option("--crashes", type=_Count, help="Crashes, each followed by a restart.")
@click.option("--drops", type=_Count, help="Connections that break.")
@click.option("--records", type=_Count, help="Records that a leader has to append.")
@click.option("--looking", is_flag=True, help="Voters without a leader look for it with Fetches.")
@click.option("--every-order", is_flag=True, help="Leave out no order, not even equivalent ones.")
@click.option("--show", type=click.Choice(MARKS), help="Print the shortest way to this situation, if it is reached.")
@click.option("--json", "as_json", is_flag=True, help="One object on stdout, and nothing else.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(
    model: str,
    defects: tuple[str, ...],
    settings: tuple[str, ...],
    states: int | None,
    epochs: int | None,
    timeouts: int | None,
    crashes: int | None,
    drops: int | None,
    records: int | None,
    looking: bool,
    every_order: bool,
    show: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Explore the code of the voters through every order of delivery, timeout, sync and crash, within bounds, and show
    the shortest way to a broken promise."""
    chosen = with_voters(MODELS[model], _features(settings), _known(defects))
    if states is not None:
        chosen = msgspec.structs.replace(chosen, states=states)
    if epochs is not None:
        chosen = msgspec.structs.replace(chosen, epochs=epochs)
    given = (timeouts, crashes, drops, records)
    if any(count is not None for count in given):
        budget = (timeouts or 0, crashes or 0, drops or 0, records or 0)
        chosen = msgspec.structs.replace(chosen, budgets=(budget,))
    if looking:
        chosen = msgspec.structs.replace(chosen, looking=True, fetching=True)
    chosen = msgspec.structs.replace(chosen, reduced=not every_order)
    explored = explore(chosen, quiet, show or "")
    if as_json:
        page().raw(exploration_json(explored))
    else:
        print_exploration(page(), explored)
    return EXIT[explored.outcome]


def explore(model: Model, quiet: bool, show: str = "") -> Explored:
    """Explore a model; Ctrl-C ends it with what was seen. ``show``: one of MARKS to which the way is wanted."""
    with StatusLine(quiet) as line:
        search = Search(model, lambda progress: line.show(lambda: _stand(progress)))
        with Interrupts(search.stop):
            found = search.run()
    missing = [
        mark for mark in dict.fromkeys((*must_see(model), *([show] if show else ()))) if mark not in found.reached
    ]
    if found.broken is not None:
        outcome = "violated"
    elif found.interrupted:
        outcome = "interrupted"
    else:
        outcome = "inconclusive" if missing else "held"
    findings = [] if found.broken is None else evidence(search.cluster, [*found.opening, *found.path])
    story, opening = tell(search.cluster, found.path), tell(search.cluster, found.opening)
    shown = tell(search.cluster, search.way(show)) if show in found.reached else []
    return Explored(model, found, outcome, missing, opening, story, findings, show, shown)


def _stand(progress: Progress) -> str:
    rate = progress.states / max(progress.seconds, 0.001)
    return (
        f"{some(progress.states, 'state')}, {some(progress.depth, 'move')} deep, "
        f"{progress.frontier:,} to be looked at, {rate:,.0f} states/s"
    )


def _known(defects: tuple[str, ...]) -> list[str]:
    known = [name for name, defect in DEFECTS.items() if defect.where == "actors.quorum"]
    wrong = [
        Mistake(
            f"--defect {name}", 0, "", "no defect of the quorum", "one of " + ", ".join(known), nearest(name, known)
        )
        for name in defects
        if name not in known
    ]
    if wrong:
        raise InputError(wrong)
    return list(dict.fromkeys(defects))


def _features(settings: tuple[str, ...]) -> dict[str, str]:
    """``kip-996=off`` or ``features.kip-996=off``. Raises InputError."""
    features: dict[str, str] = {}
    for text in settings:
        name, equals, value = text.removeprefix("features.").partition("=")
        if name not in FEATURES or not equals:
            near = nearest(name, FEATURES)
            raise InputError([Mistake(f"--set {text}", 0, "", "no feature", "FEATURE=VALUE", near)])
        if value not in FEATURES[name].values:
            raise InputError([Mistake(f"--set {text}", 0, "", "no value of it", ", ".join(FEATURES[name].values))])
        features[name] = value
    return features
