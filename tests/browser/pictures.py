"""Makes the pictures of the documents, light and dark: ``python -m tests.browser.pictures [NAME...]``, all if none is
named. Each is the timeline of a run that its page tells of, as ``krift report --html`` shows it."""

from __future__ import annotations

import base64
import struct
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from playwright.sync_api import Browser, Page, ViewportSize

from tests.architecture.sources import ROOT
from tests.browser.chromium import chromium
from tests.unit.cli.command import krift

HOME = ROOT / "docs" / "pictures"
SEED = 7
SIZE: ViewportSize = {"width": 1180, "height": 900}
LONG_MS = 300_000
DRAWN = "document.documentElement.dataset.drawn !== undefined"
ZOOM = """([from, to]) => Plotly.relayout("plot", {"xaxis.range[0]": from, "xaxis.range[1]": to})"""
COLOURS = 64
DECODE = """async (png) => {
  const bytes = Uint8Array.from(atob(png), (each) => each.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const canvas = new OffscreenCanvas(image.width, image.height), context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const data = context.getImageData(0, 0, image.width, image.height).data;
  let text = "";
  for (let at = 0; at < data.length; at += 30000) text += String.fromCharCode(...data.subarray(at, at + 30000));
  return [image.width, image.height, btoa(text)];
}"""
ZOOMED = "from => Math.abs(Number(document.getElementById('timeline').dataset.range.split(' ')[0]) - from) < 0.01"


class Picture(msgspec.Struct, frozen=True):
    """scenario: of which the variant "off" is shown. seconds: of it, from and to; all if None."""

    scenario: str
    seconds: tuple[float, float] | None = None


PICTURES = {
    "kip-207": Picture("kip-207"),
    "kip-207-evidence": Picture("kip-207", (7.6, 8.05)),
    **{
        name: Picture(name)
        for name in (
            "kip-232",
            "kip-232-external-offsets",
            "kip-232-rolling-bounce",
            "kip-232-stale-commit",
            "kip-595-disruptive-voter",
            "kip-595-divergence",
            "kip-595-figure-8",
            "kip-595-zombie-leader",
        )
    },
}


def files(name: str) -> dict[str, Path]:
    """Colours -> the file of a picture."""
    return {"light": HOME / f"{name}.png", "dark": HOME / f"{name}-dark.png"}


def page_of(scenario: str, root: Path) -> Path:
    """The page of a run."""
    path = root / f"{scenario}.html"
    if not path.exists():
        ended = krift("run", scenario, "--variant", "off", "--seed", str(SEED), "--quiet", "--out", root / scenario)
        assert ended.code == 0, ended.err
        assert krift("report", "latest", "--out", root / scenario, "--html", "--to", path).code == 0
    return path


def take(browser: Browser, name: str, root: Path) -> None:
    """Write both files of a picture."""
    picture = PICTURES[name]
    for scheme, file in files(name).items():
        dark = scheme == "dark"
        page = browser.new_context(viewport=SIZE, color_scheme="dark" if dark else "light").new_page()
        page.set_default_timeout(LONG_MS)
        page.goto(page_of(picture.scenario, root).as_uri())
        page.wait_for_function(DRAWN)
        if picture.seconds is not None:
            page.evaluate(ZOOM, list(picture.seconds))
            page.wait_for_function(ZOOMED, arg=picture.seconds[0])
        file.write_bytes(smaller(page, page.locator("#timeline").screenshot()))
        page.context.close()


def smaller(page: Page, png: bytes) -> bytes:
    """A picture with as few colours as it takes to read it: a quarter of the size. The browser decodes it."""
    width, height, pixels = page.evaluate(DECODE, base64.b64encode(png).decode())
    rgb = np.frombuffer(base64.b64decode(pixels), np.uint8).reshape(-1, 4)[:, :3].astype(np.int32)
    found, places, counts = np.unique(rgb, axis=0, return_inverse=True, return_counts=True)
    palette = found[np.argsort(-counts)[:COLOURS]]
    nearest = np.array([np.abs(palette - colour).sum(axis=1).argmin() for colour in found], np.uint8)
    rows = nearest[places.ravel()].reshape(height, width)
    lines = np.hstack([np.zeros((height, 1), np.uint8), rows]).tobytes()  # each begins with its filter: none
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = [(b"IHDR", header), (b"PLTE", palette.astype(np.uint8).tobytes()), (b"IDAT", zlib.compress(lines, 9))]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in [*parts, (b"IEND", b"")])


def chunk(name: bytes, data: bytes) -> bytes:
    """A part of a PNG file."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def main(names: Sequence[str]) -> None:
    """Write the pictures of these names."""
    with tempfile.TemporaryDirectory() as root, chromium() as browser:
        for name in names or PICTURES:
            take(browser, name, Path(root))
            print(name, *(f"{path.stat().st_size / 1024:.0f} KiB" for path in files(name).values()))


if __name__ == "__main__":
    main(sys.argv[1:])
