"""The page of a run in a headless browser: it draws, it answers mouse and keys, it needs no network."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from actors.trace.client_events import Outcome
from actors.trace.events import RunMeta, SendInvoke, SendReturn, Stamped
from orchestrator.campaigns import campaign as campaign_module
from orchestrator.page.render import run_page
from orchestrator.page.subjects import write_page
from orchestrator.page.timeline import BARS_MAX, timeline_of
from orchestrator.run_dir import Manifest
from tests.browser.chromium import chromium
from tests.unit.campaigns.here import Here
from tests.unit.cli.command import krift
from tests.unit.page.test_pages_of_many_runs import carried_out
from tests.unit.page.test_timeline import verdict_with

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1200)]

DRAWN = "document.documentElement.dataset.drawn !== undefined"
LONG_MS = 300_000
MILLION = 1_000_000
CLIENTS = 8


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of an incident."""
    root = tmp_path_factory.mktemp("incident")
    ended = krift("run", "kip-207", "--variant", "off", "--seed", "7", "--quiet", "--out", root)
    assert ended.code == 0, ended.err
    assert krift("report", "latest", "--out", root, "--html", "--to", root / "page.html").code == 0
    return root / "page.html"


def opened(browser: Browser, path: Path, width: int = 1280, **how: Any) -> Page:
    """A page that has been drawn, without an error, and without asking for anything but itself."""
    page = browser.new_context(viewport={"width": width, "height": 900}, **how).new_page()
    page.set_default_timeout(LONG_MS)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("request", lambda asked: wrong.append(asked.url) if asked.url != path.as_uri() else None)
    page.goto(path.as_uri())
    page.wait_for_function(DRAWN)
    assert wrong == []
    return page


def test_an_incident_is_drawn_wide_and_narrow_light_and_dark(browser: Browser, report: Path) -> None:
    """Shows every part of the timeline, in the system's colours, and nothing wider than the window."""
    grounds = set()
    for width in (1280, 420):
        for scheme in ("light", "dark"):
            page = opened(browser, report, width, color_scheme=scheme)
            names = page.evaluate("document.getElementById('plot').data.map((trace) => trace.name)")
            assert {"up", "down", "leads", "cut", "fault", "leader", "isr", "ok", "proof", "messages"} <= set(names)
            assert "broker-2 high watermark" in names
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            grounds.add(page.evaluate("document.getElementById('plot').layout.paper_bgcolor"))
            page.context.close()
    assert len(grounds) == 2


def meet(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two boxes (left, top, right, bottom) do."""
    return not (one[0] >= other[2] or one[2] <= other[0] or one[1] >= other[3] or one[3] <= other[1])


def luminance(colour: str) -> float:
    """Of "rgb(1, 2, 3)" or "#010203", as WCAG has it."""
    digits = colour.strip("#")
    parts = re.findall(r"\d+", colour)[:3] if "(" in colour else [int(digits[at : at + 2], 16) for at in (0, 2, 4)]
    linear = [(v / 255 / 12.92 if v / 255 <= 0.04045 else ((v / 255 + 0.055) / 1.055) ** 2.4) for v in map(int, parts)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_what_bars_say_can_be_read(browser: Browser, report: Path) -> None:
    """Shows that words in a bar differ from its colour as much as WCAG wants (4.5), light and dark."""
    for scheme in ("light", "dark"):
        page = opened(browser, report, color_scheme=scheme)
        pairs = page.evaluate(
            "document.getElementById('plot').data.filter((trace) => trace.type === 'bar' && !trace.marker.pattern)"
            ".map((trace) => [trace.name, trace.marker.color, trace.insidetextfont.color])"
        )
        assert {"fault", "leader", "isr"} <= {name for name, _, _ in pairs}
        for name, ground, words in pairs:
            light, dark = sorted((luminance(ground), luminance(words)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (scheme, name, ground, words)
        page.context.close()


def test_labels_of_a_crowded_chart_do_not_meet(browser: Browser, tmp_path: Path) -> None:
    """Shows that what is written at the lines of offsets is apart, wide and narrow, where leaders change often, and
    that all that is written above the timeline is inside of it."""
    ended = krift("run", "unclean", "--seed", "7300004", "--quiet", "--out", tmp_path)
    assert ended.code == 0, ended.err
    assert krift("report", "latest", "--out", tmp_path, "--html", "--to", tmp_path / "page.html").code == 0
    for width in (1280, 420):
        page = opened(browser, tmp_path / "page.html", width)
        rectangles = "[...document.querySelectorAll('#plot .annotation-text-g rect')]"
        texts = (
            f"{rectangles}.map((each) => each.getBoundingClientRect()).map((b) => [b.left, b.top, b.right, b.bottom])"
        )
        labels = page.evaluate("document.getElementById('plot').layout.annotations.map((each) => each.yref)")
        boxes = page.evaluate(texts)
        assert len(boxes) == len(labels)
        frame = page.evaluate("document.getElementById('timeline').getBoundingClientRect().left")
        assert all(box[0] >= frame for box in boxes)
        heads = [box for box, axis in zip(boxes, labels, strict=True) if axis == "paper"]
        assert not any(meet(one, other) for number, one in enumerate(heads) for other in heads[:number])
        at_lines = [box for box, axis in zip(boxes, labels, strict=True) if axis != "paper"]
        # In a narrow window only what hides no line is said.
        assert len(at_lines) >= (8 if width > 640 else 5)
        assert not any(meet(one, other) for number, one in enumerate(at_lines) for other in at_lines[:number])
        page.context.close()


def test_the_timeline_is_used_by_keyboard(browser: Browser, report: Path) -> None:
    """Shows that the first stop of Tab leads to it, that it opens on the evidence, and that keys zoom, move, go to the
    evidence and say it, and show all; a time in the story leads there, too."""
    page = opened(browser, report)
    frame = page.locator("#timeline")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the timeline"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "timeline"
    opened_at = frame.get_attribute("data-range")
    page.keyboard.press("0")
    page.wait_for_function("first => document.getElementById('timeline').dataset.range !== first", arg=opened_at)
    whole = frame.get_attribute("data-range")
    assert whole is not None and opened_at is not None
    (begin, end), (first, last) = (map(float, each.split()) for each in (whole, opened_at))
    assert begin < first < last < end
    for key in ("+", "ArrowRight", "n"):
        before = frame.get_attribute("data-range")
        page.keyboard.press(key)
        page.wait_for_function("before => document.getElementById('timeline').dataset.range !== before", arg=before)
    assert page.inner_text("#said").startswith("1 of ")
    page.wait_for_selector("#plot .hoverlayer .hovertext")
    page.keyboard.press("0")
    page.wait_for_function("whole => document.getElementById('timeline').dataset.range === whole", arg=whole)
    page.locator(".moments button").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("whole => document.getElementById('timeline').dataset.range !== whole", arg=whole)
    assert page.evaluate("document.activeElement.id") == "timeline"
    page.context.close()


def test_partitions_nodes_and_promises_are_filtered(browser: Browser, report: Path) -> None:
    """Shows that a lane, a chart and the evidence of a promise go when they are not wanted."""
    page = opened(browser, report)
    lanes = "document.getElementById('plot').layout.yaxis.ticktext"
    marks = "document.getElementById('plot').data.filter((trace) => trace.name === 'proof').length"
    for what, name in (("node", "controller-2"), ("tp", "orders-0")):
        page.locator(f"#filter-{what} summary").click()
        page.locator(f"#filter-{what} input[value='{name}']").uncheck()
        page.wait_for_function(f"!{lanes}.some((title) => title.startsWith('{name}'))")
        page.keyboard.press("Escape")
    page.locator("#filter-promise summary").click()
    page.locator("#filter-promise button").click()
    page.wait_for_function(f"{marks} === 0")
    page.keyboard.press("Escape")
    page.locator("#statuses").select_option("violated")
    assert page.locator("#table tbody tr:visible").count() == 2
    page.context.close()


def test_hovering_tells_what_a_bar_is(browser: Browser, report: Path) -> None:
    """Shows the words of a bar beside the pointer, wherever on the bar that is, and who leads on a leader's bar."""
    page = opened(browser, report)
    page.locator("#timeline").scroll_into_view_if_needed()
    # On the lanes of faults lies nothing else that has words.
    number = page.evaluate("document.getElementById('plot').data.findIndex((trace) => trace.name === 'fault')")
    box = page.locator("#plot .barlayer .trace").nth(number).locator(".point path").first.bounding_box()
    assert box is not None
    tip = page.locator("#tip")
    for share in (0.2, 0.8):
        at = box["x"] + share * box["width"], box["y"] + box["height"] / 2
        page.mouse.move(*at)
        page.wait_for_selector("#tip:not([hidden])", timeout=30_000)
        shown = tip.bounding_box()
        assert shown is not None and tip.text_content()
        near = max(
            shown["x"] - at[0],
            at[0] - shown["x"] - shown["width"],
            shown["y"] - at[1],
            at[1] - shown["y"] - shown["height"],
        )
        assert near <= 40, (at, shown)
    page.mouse.move(1, 1)
    page.wait_for_selector("#tip", state="hidden")
    leaders = """() => {
      const trace = document.getElementById("plot").data.find((each) => each.name === "leader");
      return trace.hovertext;
    }"""
    assert any("broker-2 leads in leader epoch 1" in text for text in page.evaluate(leaders))
    page.context.close()


def test_a_narrow_window_keeps_the_words_of_promises(browser: Browser, report: Path) -> None:
    """Shows that at 420 pixels the text of each promise lies within the window, and that what did not simply hold is
    what the table begins with."""
    page = opened(browser, report, 420)
    texts = page.locator("#table tbody tr:visible td:last-child")
    assert texts.count() == 3
    for number in range(texts.count()):
        box = texts.nth(number).bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 420 and box["width"] > 250
    page.locator("#statuses").select_option("")
    assert texts.count() > 100
    page.context.close()


def million() -> Iterator[Stamped]:
    """A run of a million events: clients that send without an end."""
    clients = [f"producer-{number}" for number in range(CLIENTS)]
    yield Stamped("run", "driver", 0, 0, 0, 0, "", "", RunMeta("s", "v", "sim", 1, clients, {}))
    for number in range(MILLION // 2):
        client = number % CLIENTS
        node, seq, uid = clients[client], 2 * (number // CLIENTS), f"{client}:{number}"
        sent, done = 200 * number, 200 * number + 150 + 40_000 * (number % 997 == 0)
        yield Stamped("run", node, 0, seq, sent, 0, "", "", SendInvoke(uid, "orders-0", uid, -1))
        outcome: Outcome = "fail" if number % 4_999 == 0 else "ok"
        body = SendReturn(uid, outcome, 0, "orders-0", uid, -1, offset=number)
        yield Stamped("run", node, 0, seq + 1, done, 0, "", "", body)


def test_a_run_of_a_million_events_has_a_small_page(browser: Browser, tmp_path: Path) -> None:
    """Shows that what is drawn is bounded, whatever the run, and that the page says what it left out. How soon it is
    drawn is printed (-s): that depends on the machine."""
    verdict = verdict_with()
    manifest = Manifest(krift="1", run="run", scenario="s", runtime="sim", seed=1, started="")
    timeline = timeline_of(million(), verdict)
    assert timeline.events == MILLION + 1
    path = tmp_path / "million.html"
    path.write_text(run_page(verdict, manifest, timeline), encoding="utf-8")
    assert path.stat().st_size < 4 << 20
    assert sum(len(lane.bars) for lane in timeline.lanes) <= BARS_MAX
    page = opened(browser, path)
    assert "drawn together" in page.inner_text("main")
    print(f"drawn {page.evaluate('document.documentElement.dataset.drawn')} ms after it was asked for")
    page.context.close()


def test_pages_of_many_runs_lead_to_pages_of_one(browser: Browser, tmp_path: Path) -> None:
    """Shows that a campaign's page fits a narrow window, that its rows are filtered, and that from a failure the
    keyboard leads to the page of its run, which is drawn."""
    patch = pytest.MonkeyPatch()
    with patch.context() as patched:
        patched.setattr(campaign_module, "spread", Here().spread)
        patched.setattr(campaign_module, "recheck", lambda spark, kept: "")
        directory = carried_out(tmp_path)
    path = write_page(tmp_path, str(directory.path)).path
    page = browser.new_context(viewport={"width": 420, "height": 900}).new_page()
    page.set_default_timeout(LONG_MS)
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.locator("input.filter").first.fill("Log matching: metadata")
    assert page.locator("section", has_text="Promises").locator("tbody tr:visible").count() == 1
    page.locator("td a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-drawn]", state="attached")
    assert "VIOLATED" in page.inner_text("main")
    page.context.close()
