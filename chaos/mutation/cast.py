"""Who and what there is in a scenario document, and how an entry of another document is made to fit."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from chaos.nemesis.scene import UNCLEAN

Part = dict[str, Any]
"""A mapping of a scenario document."""

_TP_CALL = re.compile(r"(leader|followers|isr)\(\s*([A-Za-z0-9._-]+-\d+)\s*\)(?:\[(\d+)\])?")
_ANY = re.compile(r"any\(\s*(\d+)\s*(?:,\s*([a-z]+)\s*)?\)")
_NODE = re.compile(r"(broker|controller|producer|consumer|list-offsets)-(\d+)")


class Cast(msgspec.Struct, frozen=True):
    """What the entries of a document may name. tps: topic partition -> number of its replicas. topics: theirs. clients:
    names. unclean: whether records may be given up for a leader."""

    voters: int
    brokers: int
    tps: dict[str, int]
    topics: list[str]
    clients: list[str]
    unclean: bool

    @property
    def servers(self) -> list[str]:
        """Names of all that have a disk."""
        return [*self._named("controller", self.voters), *self._named("broker", self.brokers)]

    def _named(self, kind: str, count: int) -> list[str]:
        return [f"{kind}-{number}" for number in range(1, count + 1)]

    def selectors(self, whom: str) -> list[str]:
        """Selectors that a fault may be aimed at; whom: brokers, servers, or all."""
        found = [f"leader({tp})" for tp in self.tps]
        found += [f"followers({tp})[{index}]" for tp, count in self.tps.items() for index in range(count - 1)]
        found += self._named("broker", self.brokers)
        if whom == "brokers":
            return found
        found += ["active-controller", "active-controller", *self._named("controller", self.voters)]
        return found if whom == "servers" else [*found, *self.clients]

    def fit(self, value: Any) -> Any:
        """A part of another document, with the names in it changed for such as there are here: broker-5 of three
        brokers becomes broker-2, and so on. What cannot be made to fit stays, and the loader refuses it."""
        if isinstance(value, str):
            return self._fit_text(value)
        if isinstance(value, list):
            fitted = [self.fit(each) for each in value]
            return list(dict.fromkeys(fitted)) if all(isinstance(each, str) for each in fitted) else fitted
        if isinstance(value, dict):
            return {key: self._fit_number(key, self.fit(each)) for key, each in value.items()}
        return value

    def _fit_number(self, key: str, value: Any) -> Any:
        return (value - 1) % self.brokers + 1 if key == "replica-id" and isinstance(value, int) else value

    def _fit_text(self, text: str) -> str:
        if match := _TP_CALL.fullmatch(text):
            return self._fit_call(match[1], self.fit_tp(match[2]), match[3])
        if match := _ANY.fullmatch(text):
            there_are = {"controllers": self.voters, "clients": len(self.clients)}.get(match[2], self.brokers)
            return text.replace(match[1], str(min(int(match[1]), there_are)), 1)
        if match := _NODE.fullmatch(text):
            return self._fit_node(match[1], int(match[2]))
        return self.fit_tp(text)

    def _fit_call(self, call: str, tp: str, index: str | None) -> str:
        last = self.tps.get(tp, 1) - (2 if call == "followers" else 1)
        if index is None:
            return f"{call}({tp})"
        return f"{call}({tp})[{min(int(index), last)}]" if last >= 0 else f"leader({tp})"

    def _fit_node(self, kind: str, number: int) -> str:
        if kind in ("broker", "controller"):
            return f"{kind}-{(number - 1) % (self.brokers if kind == 'broker' else self.voters) + 1}"
        alike = [name for name in self.clients if name.rpartition("-")[0] == kind] or self.clients
        return alike[(number - 1) % len(alike)]

    def fit_tp(self, text: str) -> str:
        """A topic partition of this document for one of another; other texts stay."""
        topic, _, number = text.rpartition("-")
        if text in self.tps or topic not in self.topics or not number.isdigit():
            return text
        count = sum(tp.rpartition("-")[0] == topic for tp in self.tps)
        return f"{topic}-{int(number) % count}"


def cast_of(document: Part) -> Cast:
    """What a document's entries may name."""
    cluster = document["cluster"]
    brokers = cluster.get("brokers", 3)
    tps: dict[str, int] = {}
    for topic, given in cluster["topics"].items():
        counts = [len(each) for each in given.get("replicas") or []]
        counts = counts or [given.get("replication", 1)] * given.get("partitions", 1)
        tps.update({f"{topic}-{number}": count for number, count in enumerate(counts)})
    numbers: dict[str, int] = {}
    clients: list[str] = []
    for entry in document["workload"]:
        ((kind, client),) = entry.items()
        for _ in range(client.get("count", 1)):
            numbers[kind] = numbers.get(kind, 0) + 1
            clients.append(f"{kind}-{numbers[kind]}")
    unclean = bool(cluster.get("config", {}).get(UNCLEAN, False))
    return Cast(cluster.get("voters", 3), brokers, tps, list(cluster["topics"]), clients, unclean)
