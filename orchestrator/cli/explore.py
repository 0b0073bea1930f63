"""``krift explore``: every order of what can happen to nodes, within bounds."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from actors.defects.catalogue import DEFECTS
from actors.features import FEATURES
from chaos.errors import DEFECT_NAMES, InputError, Mistake, choices, nearest
from chaos.words import some
from orchestrator.cli.status_line import StatusLine
from orchestrator.exploration.models import MODELS, SUBJECTS, Model, must_see, with_nodes
from orchestrator.exploration.search import Progress, Search
from orchestrator.exploration.story import evidence, tell
from orchestrator.interrupts import INTERRUPTED, Interrupts
from orchestrator.report.console import page
from orchestrator.report.exploration import Explored, exploration_json, print_exploration

STATES_MAX = 20_000_000
BOUNDS = {
    "voters": (("timeouts", "crashes", "drops", "records"), ("epochs", "looking")),
    "transactions": (("elections", "crashes", "drops", "requests"), ("replicas",)),
}
"""Options of a kind of nodes: budgets, in their order, and others."""
EXIT = {"held": 0, "violated": 1, "inconclusive": 3, "interrupted": INTERRUPTED}
_Count = click.IntRange(0, 9)
MARKS = tuple(dict.fromkeys(mark for subject in SUBJECTS.values() for mark in subject.marks))


@click.command("explore")
@click.argument("model", type=click.Choice(list(MODELS)))
@click.option("--defect", "defects", multiple=True, metavar="NAME", help="Plant this bug; may be repeated.")
@click.option("--set", "settings", multiple=True, metavar="FEATURE=VALUE", help="Override a feature, e.g. kip-996=off.")
@click.option(
    "--states", type=click.IntRange(1, STATES_MAX), help="Stop after this many states; the model's limit if not given."
)
@click.option(
    "--crashes",
    type=_Count,
    help="Crashes, each followed by a restart. A budget on the command line replaces all budgets of the model.",
)
@click.option("--drops", type=_Count, help="Connections that break.")
@click.option("--timeouts", type=_Count, help="Voters: timers that may fire.")
@click.option("--records", type=_Count, help="Voters: records that a leader has to append.")
@click.option("--epochs", type=click.IntRange(1, 9), help="Voters: the highest epoch.")
@click.option("--looking", is_flag=True, help="Voters without a leader look for it with Fetches.")
@click.option("--elections", type=_Count, help="Brokers: elections of another leader of a partition.")
@click.option("--requests", type=_Count, help="Brokers: requests of producers.")
@click.option("--replicas", type=click.IntRange(2, 4), help="Brokers: replicas of the transaction log.")
@click.option("--every-order", is_flag=True, help="Leave out no order, not even equivalent ones.")
@click.option("--show", type=click.Choice(MARKS), help="Print the shortest way to this situation, if it is reached.")
@click.option("--json", "as_json", is_flag=True, help="One object on stdout, and nothing else.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(
    model: str,
    defects: tuple[str, ...],
    settings: tuple[str, ...],
    states: int | None,
    every_order: bool,
    show: str | None,
    as_json: bool,
    quiet: bool,
    **bounds: Any,
) -> int:
    """Explore the code of nodes through every order of delivery, timeout, sync, election and crash, within bounds, and
    show the shortest way to a broken promise."""
    chosen = _bounded(MODELS[model], bounds)
    chosen = with_nodes(chosen, _features(settings), _known(chosen, defects))
    if states is not None:
        chosen = msgspec.structs.replace(chosen, states=states)
    chosen = msgspec.structs.replace(chosen, reduced=not every_order)
    explored = explore(chosen, quiet, show or "")
    if as_json:
        page().raw(exploration_json(explored))
    else:
        print_exploration(page(), explored)
    return EXIT[explored.outcome]


def _bounded(model: Model, bounds: dict[str, Any]) -> Model:
    """The model with the bounds that were given. Raises InputError for one of other nodes."""
    given = {name: value for name, value in bounds.items() if value is not None and value is not False}
    budgets, shape = BOUNDS[model.subject]
    wrong = [
        Mistake(f"--{name}", 0, "", f"no bound of {model.name}", ", ".join(f"--{each}" for each in (*budgets, *shape)))
        for name in given
        if name not in budgets and name not in shape
    ]
    if wrong:
        raise InputError(wrong)
    if any(name in given for name in budgets):
        model = msgspec.structs.replace(model, budgets=(tuple(given.get(name, 0) for name in budgets),))
    if "epochs" in given:
        model = msgspec.structs.replace(model, epochs=given["epochs"])
    if "looking" in given:
        model = msgspec.structs.replace(model, looking=True, fetching=True)
    if "replicas" in given:
        brokers = tuple(range(1, given["replicas"] + 1))
        model = msgspec.structs.replace(model, nodes=len(brokers), logs=brokers)
    return model


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


def _known(model: Model, defects: tuple[str, ...]) -> list[str]:
    subject = SUBJECTS[model.subject]
    known = [name for name, defect in DEFECTS.items() if defect.where in subject.defects]
    wrong = [
        Mistake(
            *(f"--defect {name}", 0, "", f"no defect of the {subject.node}s"),
            *(choices(known, DEFECT_NAMES), nearest(name, known)),
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
