"""The browser of the tests: Chromium, from ``KRIFT_BROWSER``, from the machine, or from the npm package that holds one.

``python -m tests.browser.chromium`` fetches it into ``.venv/browser``, once, by npm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright._impl._driver import compute_driver_executable
from playwright.sync_api import Browser, sync_playwright

from tests.architecture.sources import ROOT

PACKAGE = "@sparticuz/chromium@147.0.0"
HOME = ROOT / ".venv" / "browser"
FETCHED = HOME / "chromium"
NAMES = ("chromium", "chromium-browser", "chromium-headless-shell", "google-chrome", "google-chrome-stable")
WITHOUT_NETWORK = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking")
UNPACK = """
const fs = require("fs"), zlib = require("zlib"), [, , packed, unpacked] = process.argv;
fs.writeFileSync(unpacked, zlib.brotliDecompressSync(fs.readFileSync(packed)), {mode: 0o755});
"""


def executable() -> str:
    """Path of a browser. Raises AssertionError, which says how to get one."""
    given = os.environ.get("KRIFT_BROWSER", "")
    found = given or next(filter(None, (str(FETCHED) if FETCHED.exists() else "", *map(shutil.which, NAMES))), "")
    assert found, f"no browser: install Chromium, set KRIFT_BROWSER, or run {sys.executable} -m tests.browser.chromium"
    return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser, while it is used."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=WITHOUT_NETWORK, timeout=240_000)
        try:
            yield browser
        finally:
            browser.close()


def fetch() -> None:
    """Get the package by npm, and unpack its browser by the Node.js that comes with Playwright."""
    HOME.mkdir(parents=True, exist_ok=True)
    subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=HOME, check=True)
    (archive,) = HOME.glob("sparticuz-chromium-*.tgz")
    with tarfile.open(archive) as package:
        member = package.extractfile("package/bin/chromium.br")
        assert member is not None, f"{archive} has no browser"
        packed = HOME / "chromium.br"
        packed.write_bytes(member.read())
    node = compute_driver_executable()[0]
    aside = HOME / "chromium.tmp"
    subprocess.run([node, "-", packed, aside], input=UNPACK.encode(), check=True)
    os.replace(aside, FETCHED)
    for path in (archive, packed):
        Path(path).unlink()


if __name__ == "__main__" and not FETCHED.exists():
    fetch()
