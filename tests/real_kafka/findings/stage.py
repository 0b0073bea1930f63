"""The real Kafka for a finding: its own command line tools, signals to its processes, and what it logged."""

from __future__ import annotations

import base64
import re
import shlex
import signal
import subprocess
import textwrap
from collections.abc import Callable
from typing import Any

from tests.real_kafka.cluster import CONFIG, Closed, Fields, wait
from tests.real_kafka.findings.transcript import WIDTH, Transcript
from tests.real_kafka.real_cluster import VERSION, RealCluster
from tests.real_kafka.requests import METADATA_TOPIC, describe_quorum, list_offsets, metadata, partition_of

TOOLS = {
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}
"""Kafka's scripts, and the class that each runs."""
TOOL_JVM = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
TOOL_S = 150.0
NOISE = re.compile(r"^\s+at |^\s*\.\.\. \d+ more|^Option .* deprecated|^$")
"""What a tool prints and no page needs: the frames of a stack trace."""


class Stage(RealCluster):
    """A cluster with a transcript. Nodes are called broker-1 and controller-101 in it."""

    def __init__(
        self,
        brokers: int,
        controllers: int,
        config: Fields | None = None,
        *,
        dynamic: bool = False,
        features: dict[str, int] | None = None,
    ) -> None:
        nodes = tuple(range(1, brokers + 1)), tuple(range(101, 101 + controllers))
        super().__init__(*nodes, config, dynamic=dynamic, features=features)
        self.transcript = Transcript()

    def __enter__(self) -> Stage:
        for node in self.ports:
            for port in {self.ports[node], self.advertised[node]}:
                self.transcript.names[f"127.0.0.1:{port}"] = self.name(node)
        self.transcript.names |= {str(self.folder): "DIR"}
        super().__enter__()
        return self

    def described(self) -> list[str]:
        """What the cluster is, for the head of the transcript."""
        voters = "of dynamic voters" if self.dynamic else "of static voters"
        nodes = ", ".join(self.name(node) for node in self.ports)
        own = ", ".join(f"{key}={str(value).lower()}" for key, value in (CONFIG | self.config).items())
        formatted = ", ".join(f"{name}={level}" for name, level in self.features.items())
        return [
            f"Kafka {VERSION}: {nodes} ({voters}); each name stands for its address.",
            *textwrap.wrap(f"Not by default, sizes apart: {own}", WIDTH),
            *([f"Formatted with {formatted}"] if formatted else []),
        ]

    def name(self, node: int) -> str:
        """``broker-1``."""
        return f"{'broker' if node in self.brokers else 'controller'}-{node}"

    # ---- processes -----------------------------------------------------------------------------------------

    def signal(self, number: signal.Signals, *nodes: int, why: str = "") -> None:
        """Send a signal to nodes; wait until who must end has ended."""
        names = ", ".join(self.name(node) for node in nodes)
        self.transcript.did(f"{number.name} to {names}{f' ({why})' if why else ''}")
        for node in nodes:
            self.processes[node].send_signal(number)
        if number in (signal.SIGTERM, signal.SIGKILL):
            for node in nodes:
                self.processes.pop(node).wait(60)

    def start_again(self, *nodes: int) -> None:
        """Start nodes on their directories, and wait until they listen."""
        self.transcript.did(f"start {', '.join(self.name(node) for node in nodes)}")
        self.start(*nodes)
        for node in nodes:
            self.connect(node)

    def format(self, node: int) -> None:
        """Format a node's directory, with the id that it had."""
        words = self._format(node)
        self.transcript.did("$ " + " ".join(["kafka-storage", *words]))
        assert self._java(node, TOOLS["kafka-storage"], *words).wait(60) == 0, self._log(node)

    def logged(self, node: int, *patterns: str) -> list[str]:
        """The lines of a node's log that contain one of these patterns, oldest first."""
        lines = (self.folder / f"{node}.out").read_text(encoding="utf-8", errors="replace").splitlines()
        return [line for line in lines if any(re.search(pattern, line) for pattern in patterns)]

    def show_log(self, node: int, *patterns: str, last: int = 3) -> None:
        """The last of those lines, in the transcript."""
        self.transcript.did(f"log of {self.name(node)}", *(self.logged(node, *patterns)[-last:] or ["(no such line)"]))

    # ---- Kafka's tools ---------------------------------------------------------------------------------------

    def tool(
        self, name: str, words: str, *, ask: int, stdin: str = "", keep: str = "", config: Fields | None = None
    ) -> str:
        """Run one of Kafka's tools against a node, into the transcript: the lines with ``keep``, if that is given.
        ``config`` is the client's."""
        option = "--bootstrap-server" if ask in self.brokers else "--bootstrap-controller"
        command = [name, option, f"127.0.0.1:{self.ports[ask]}", *words.split()]
        if config:
            command[3:3] = ["--command-config", self.file(*[f"{key}={value}" for key, value in config.items()])]
        typed = (f"printf {stdin!r} | " if stdin else "") + " ".join(command)
        self.transcript.did(f"$ {typed}")
        begun = self.now_ms()
        said = self.run_tool(command, stdin)
        shown = [line for line in said.splitlines() if not NOISE.search(line) and re.search(keep, line)]
        took_s = (self.now_ms() - begun) // 1000
        self.transcript.came(*shown, *([f"(that took {took_s} s)"] if took_s >= 10 else []))
        return said

    def run_tool(self, command: list[str], stdin: str = "") -> str:
        """What a tool prints, errors included."""
        words = ["java", *TOOL_JVM, "-cp", self.class_path, TOOLS[command[0]], *command[1:]]
        try:
            done = subprocess.run(
                words, input=stdin, capture_output=True, text=True, timeout=TOOL_S, check=False, cwd=self.folder
            )
        except subprocess.TimeoutExpired:
            return f"(ended after {TOOL_S:.0f} s without an answer)"
        return done.stdout + done.stderr

    def file(self, *lines: str) -> str:
        """A file for a tool, which the transcript shows in full."""
        path = self.folder / f"for-tools-{len(self.transcript.names)}"
        path.write_text("\n".join(lines), encoding="utf-8")
        shown = f"<(printf '%s\\n' {shlex.join(lines)})"
        self.transcript.names = {str(path): shown} | self.transcript.names
        return str(path)

    # ---- what is so ------------------------------------------------------------------------------------------

    def until(self, condition: Callable[[], bool], limit_s: float = 60) -> float | None:
        """Seconds until a condition came true, or None if it did not in time."""
        begun = self.now_ms()
        return (self.now_ms() - begun) / 1000 if wait(self, condition, int(limit_s * 1000), 200) else None

    def partition(self, topic: str, index: int = 0, *, ask: int) -> Any:
        """What a broker's Metadata says of a partition."""
        return partition_of(self.connect(ask), topic, index)

    def topic_id(self, topic: str, *, ask: int) -> str:
        """As Kafka's logs show it."""
        found = metadata(self.connect(ask), topic).topics[0].topic_id
        return base64.urlsafe_b64encode(found.bytes).decode().rstrip("=")

    def end_of(self, topic: str, index: int = 0, *, ask: int) -> int:
        """Up to where a consumer may read, as the leader says."""
        return int(list_offsets(self.connect(ask), topic, -1, partition=index).offset)

    def bytes_of(self, topic: str, node: int, index: int = 0) -> int:
        """How large the log of a replica is."""
        return sum(path.stat().st_size for path in (self.data(node) / f"{topic}-{index}").glob("*.log"))

    def led_by(self, topic: str, *leaders: int, ask: int, index: int = 0) -> Callable[[], bool]:
        """Whether one of these leads; without any, whether anybody does."""

        def led() -> bool:
            leader = int(self.partition(topic, index, ask=ask).leader_id)
            return leader in leaders if leaders else leader >= 0

        return led

    def quorum(self, node: int) -> Any:
        """What a controller says of the quorum: the one partition of DescribeQuorum."""
        return describe_quorum(self.connect(node), METADATA_TOPIC).topics[0].partitions[0]

    def quorum_leader(self, *nodes: int) -> int:
        """The controller that says that it leads, or -1."""
        for node in nodes or self.controllers:
            try:
                if self.quorum(node).leader_id == node:
                    return node
            except Closed:
                pass
        return -1
