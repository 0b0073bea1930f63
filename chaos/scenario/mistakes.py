"""What is wrong in a document, collected while its parts are held against each other."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.errors import DEFECT_NAMES, Mistake, choices, nearest
from chaos.scenario.yaml_tree import Document, Path_, dotted

LISTED = {
    "API": "a name in docs/configuration.md",
    "Kafka error": "a name in actors/node/errors.py",
    "configuration key": "a name in docs/configuration.md",
    "defect": DEFECT_NAMES,
    "feature": "a name in docs/configuration.md",
    "trigger": "a name in docs/scenarios.md",
}
"""Kind of name -> what is expected, where there are many."""


class Mistakes:
    """Collects what is wrong, with its place in the document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.found: list[Mistake] = []

    def add(self, path: Path_, problem: str, expected: str = "", suggestion: str = "") -> None:
        path = self.document.as_written(path)
        mistake = Mistake(self.document.file, self.document.line(path), dotted(path), problem, expected, suggestion)
        if mistake not in self.found:  # a variant may show it once more
            self.found.append(mistake)

    def unknown(self, path: Path_, word: str, what: str, known: Iterable[str]) -> None:
        """``word`` is none of ``known``; names the nearest, and all of them where they are few."""
        known = list(known)
        many = LISTED.get(what)
        expected = choices(known, many) if many is not None else "one of " + ", ".join(known)
        self.add(path, f"unknown {what} {word}", expected, nearest(word, known))
