"""Does guidance by coverage find defects sooner? ``python -m benchmarks.guidance``.

::

    screen FILE       which defects fresh draws find rarely: 10 runs each
    study FILE        of those, campaigns of 50 runs each, by chance and guided, as many of each as asked for; with
                      --first each ends with the run that found the defect
    table FILE        what was found, as Markdown

Every campaign is of one nemesis (``guidance.yaml``: short runs), with one defect planted; a run finds the defect when
the invariant meant for it is violated, and ends there. Both ways draw the same seeds: the fresh draws of a guided
campaign are the first ones of the campaign by chance beside it, and are carried out once for both. FILE has a line
for each run that was carried out, so that a study which was broken off goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
import msgspec
import numpy as np

from actors.defects.catalogue import DEFECTS
from actors.defects.defect import Defect
from orchestrator.campaigns.guide import CoverageGuide, Guide, RandomGuide
from orchestrator.campaigns.intervals import mean_intervals, sign_test
from orchestrator.campaigns.order import SimOrder
from orchestrator.coverage.observer import Coverage
from orchestrator.sim_run import run_in_sim

NEMESIS = "benchmarks/guidance.yaml"
BUDGET = 50
GENERATION = 5
SCREENED = 10
"""Runs of the screening; their seeds are in no campaign."""
RARE = 3
"""Found in fewer of the screening's runs than this, a defect is rare: less than 30 %."""
EXCLUDED = {"unseeded-timers": "its invariant compares two runs"}


class Result(msgspec.Struct, frozen=True):
    """A run that was carried out. key: of its order and scenario. found: the defect was caught. coverage: points."""

    key: str
    defect: str
    found: bool
    coverage: list[str]
    virtual_us: int


class Study:
    """Runs, each carried out once. ``path``: where they are kept. ``nemesis``: a name, or the path of a file.
    ``families``: of the points that guidance goes by; all if none is given."""

    def __init__(self, path: Path, nemesis: str, families: Sequence[str] = ()) -> None:
        self.nemesis = nemesis
        self._families = families
        self._text = Path(nemesis).read_text(encoding="utf-8") if nemesis.endswith(".yaml") else ""
        self._path = path
        lines = path.read_bytes().splitlines() if path.exists() else []
        results = [msgspec.json.decode(line, type=Result) for line in lines]
        self._known = {result.key: result for result in results}

    def run(self, defect: Defect, order: SimOrder) -> Result | None:
        """What came of a run; None if it was not carried out yet."""
        return self._known.get(_key(order))

    def do(self, defect: Defect, order: SimOrder) -> Result:
        """Carry out a run, unless that was done."""
        known = self.run(defect, order)
        if known is not None:
            return known
        coverage = Coverage()
        run = run_in_sim(order.plan(), [coverage], stop_at=defect.caught_by)
        result = Result(_key(order), defect.name, defect.caught_by in run.first_unknown, coverage.points(), run.end_us)
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(result) + b"\n")
        self._known[result.key] = result
        return result

    def fresh(self, defect: Defect, first: int, last: int) -> Iterator[SimOrder]:
        """Draws of the nemesis with the defect planted."""
        for seed in range(first, last + 1):
            yield SimOrder(self.nemesis, "", seed, defect.settings, (defect.name,), self._text)

    def screened(self, defect: Defect, known_only: bool = False) -> tuple[int, int]:
        """In how many runs of the screening the defect was found, and how many there were: it ends when the defect is
        not rare."""
        found = runs = 0
        for order in self.fresh(defect, 1, SCREENED):
            result = self.run(defect, order) if known_only else self.do(defect, order)
            if result is None:
                break
            runs += 1
            found += result.found
            if found >= RARE:
                break
        return found, runs

    def campaign(
        self, defect: Defect, number: int, guided: bool, *, first_only: bool = False, known_only: bool = False
    ) -> list[Result] | None:
        """Campaign ``number`` (from 1) of a defect, up to the first run that found it where that is enough; None if
        not all of it is known."""
        begin = SCREENED + 1 + (number - 1) * BUDGET
        fresh = self.fresh(defect, begin, begin + BUDGET - 1)
        guide: Guide = RandomGuide(fresh)
        if guided:
            guide = CoverageGuide(fresh, number, "schedules", families=self._families)
        results: list[Result] = []
        while len(results) < BUDGET:
            orders = guide.next_orders(min(GENERATION, BUDGET - len(results)))
            for order in orders:
                result = self.run(defect, order) if known_only else self.do(defect, order)
                if result is None:
                    return None
                results.append(result)
                if result.found and first_only:
                    return results
                guide.learn(order, result.coverage)
        return results


def _key(order: SimOrder) -> str:
    """Names a run by all that decides it."""
    return f"{order.key} {hashlib.sha256(order.text.encode()).hexdigest()}"


def first_found(results: Sequence[Result]) -> int:
    """Number of the first run that found the defect; BUDGET + 1 if none did."""
    return next((number for number, result in enumerate(results, 1) if result.found), BUDGET + 1)


# ---- the table ---------------------------------------------------------------------------------------------------


def table(study: Study, campaigns: int, first_only: bool) -> Iterator[str]:
    """What was found, as Markdown, with the tests beneath."""
    found = "found at" if first_only else "found in, first at"
    yield f"| defect | invariant | screening | campaign | by chance: {found} | guided: {found} |"
    yield "|---|---|---|---|---|---|"
    firsts: list[tuple[int, int]] = []
    hits: list[tuple[int, int]] = []
    points: list[tuple[int, int]] = []
    for defect in _candidates():
        met, runs = study.screened(defect, known_only=True)
        for number in range(1, campaigns + 1):
            pair = [
                study.campaign(defect, number, guided, first_only=first_only, known_only=True)
                for guided in (False, True)
            ]
            if met >= RARE or runs < SCREENED or pair[0] is None or pair[1] is None:
                continue
            chance, guided = pair[0], pair[1]
            firsts.append((first_found(chance), first_found(guided)))
            hits.append((_hits(chance), _hits(guided)))
            points.append((_reached(chance), _reached(guided)))
            cells = [_cell(each, first_only) for each in (chance, guided)]
            yield f"| `{defect.name}` | {defect.caught_by} | {met} of {runs} | {number} | {' | '.join(cells)} |"
    if firsts:
        yield ""
        yield from _tests(firsts, [] if first_only else hits, [] if first_only else points)


def _hits(results: Sequence[Result]) -> int:
    return sum(result.found for result in results)


def _reached(results: Sequence[Result]) -> int:
    return len({point for result in results for point in result.coverage})


def _cell(results: Sequence[Result], first_only: bool) -> str:
    first = first_found(results)
    if first_only:
        return f"run {first}" if first <= BUDGET else f"not in {BUDGET}"
    return f"{_hits(results)} of {len(results)}, {first}" if first <= BUDGET else f"0 of {len(results)}, never"


def _tests(
    firsts: Sequence[tuple[int, int]], hits: Sequence[tuple[int, int]], points: Sequence[tuple[int, int]]
) -> Iterator[str]:
    yield f"- pairs of campaigns: {len(firsts)}, of {BUDGET} runs each way"
    by_chance, guided = (sum(pair[way] <= BUDGET for pair in firsts) for way in (0, 1))
    yield f"- campaigns that found the defect: {by_chance} by chance, {guided} guided"
    sooner, later = sum(g < c for c, g in firsts), sum(g > c for c, g in firsts)
    even, p = len(firsts) - sooner - later, sign_test(sooner, later)
    yield f"- guided found it sooner in {sooner}, later in {later}, as soon or never in {even}: sign test, p = {p:.2f}"
    for what, pairs in (
        ("number of the first run that found it (51 for never)", firsts),
        ("runs that found it", hits),
        ("coverage points reached", points),
    ):
        if not pairs:
            continue
        differences = np.array([[g - c] for c, g in pairs], dtype=float)
        [bounds] = mean_intervals(differences)
        within = (
            f"95 % within {bounds[0]:+.1f} to {bounds[1]:+.1f}" if bounds is not None else "too few for an interval"
        )
        yield f"- guided less by chance, {what}: {differences.mean():+.1f} on average, {within}"


def _candidates() -> list[Defect]:
    return [defect for defect in DEFECTS.values() if defect.name not in EXCLUDED]


# ---- the command -------------------------------------------------------------------------------------------------


@click.group()
@click.option("--nemesis", default=NEMESIS, show_default=True, help="What draws the schedules: a name or a file.")
@click.option("--family", "families", multiple=True, help="Guidance goes by points of this family, such as amid.")
@click.pass_context
def main(context: click.Context, nemesis: str, families: tuple[str, ...]) -> None:
    """Compare campaigns guided by coverage with fresh draws alone, on defects that those find rarely."""
    context.obj = lambda path: Study(path, nemesis, families)


_FILE = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
_ONLY = click.option("--defect", "names", multiple=True, type=click.Choice(list(DEFECTS)), help="These alone.")
_FIRST = click.option("--first", "first_only", is_flag=True, help="A campaign ends with the first run that found it.")
_CAMPAIGNS = click.option("--campaigns", default=1, show_default=True, type=click.IntRange(1), help="Of each defect.")


@main.command()
@_FILE
@_ONLY
@click.pass_obj
def screen(open_study: Callable[[Path], Study], file: Path, names: tuple[str, ...]) -> None:
    """Say in how many of 10 runs each defect is found."""
    study = open_study(file)
    for defect in _candidates():
        if not names or defect.name in names:
            found, runs = study.screened(defect)
            click.echo(f"{defect.name}: {found} of {runs}{', rare' if found < RARE else ''}")


@main.command(name="study")
@_FILE
@_ONLY
@_CAMPAIGNS
@_FIRST
@click.pass_obj
def study_command(
    open_study: Callable[[Path], Study], file: Path, names: tuple[str, ...], campaigns: int, first_only: bool
) -> None:
    """Run the campaigns of the defects that are rare (all that were screened, if none is named)."""
    study = open_study(file)
    for number in range(1, campaigns + 1):
        for defect in _candidates():
            found, runs = study.screened(defect, known_only=True)
            if (names and defect.name not in names) or found >= RARE or runs < SCREENED:
                continue
            for guided in (False, True):
                results = study.campaign(defect, number, guided, first_only=first_only)
                assert results is not None, "what is not known is done"
                way = "guided" if guided else "by chance"
                told = f"{_cell(results, first_only)}; {_reached(results)} points"
                click.echo(f"{defect.name}, campaign {number}, {way}: {told}")


@main.command(name="table")
@_FILE
@_CAMPAIGNS
@_FIRST
@click.pass_obj
def table_command(open_study: Callable[[Path], Study], file: Path, campaigns: int, first_only: bool) -> None:
    """Print what was found."""
    for line in table(open_study(file), campaigns, first_only):
        click.echo(line)


if __name__ == "__main__":
    main()
