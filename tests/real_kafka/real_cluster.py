"""The real Apache Kafka on 127.0.0.1: brokers and controllers, each a process, from the published jars.

It needs Java 17, and Maven with access to the jars of Kafka (once: they are kept beside the environment's packages).
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from tests.real_kafka.cluster import BROKERS, CONFIG, CONTROLLERS, Closed, Fields, Topic, call, wait
from tests.real_kafka.requests import error, metadata
from tests.real_kafka.wire import WireConnection

VERSION = "4.3.1"
JARS = Path(__file__).parents[2] / ".venv" / f"kafka-{VERSION}"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
START_S = 120.0
JVM = ["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>krift</groupId><artifactId>real-kafka</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
<version>2.25.4</version></dependency>
</dependencies></project>
"""
SMALL = {
    "num.network.threads": 2,
    "num.io.threads": 4,
    "background.threads": 2,
    "offsets.topic.replication.factor": 1,
    "log.retention.ms": -1,  # the script's records are from 1970: Kafka looks for old ones 30 s after its start
    "auto.create.topics.enable": False,
    "log.cleaner.dedupe.buffer.size": 4194304,
}
"""Six processes on one machine: little of everything."""
LOGGING = """appender.o.type = Console
appender.o.name = O
appender.o.layout.type = PatternLayout
appender.o.layout.pattern = %p %m (%c{1})%n
rootLogger.level = info
rootLogger.appenderRef.o.ref = O
logger.elections.name = org.apache.kafka.controller.PartitionChangeBuilder
logger.elections.level = trace
"""
"""Into the node's ``.out``; of elections also how they came about."""


class NoKafka(Exception):
    """The real Kafka cannot be had here; why."""


def jars() -> str:
    """The class path of Kafka; Maven fetches it if it is not there. Raises NoKafka."""
    if not list(JARS.glob("kafka-tools-*")):
        if shutil.which("mvn") is None or shutil.which("java") is None:
            raise NoKafka(f"Kafka {VERSION} is not in {JARS}, and there is no Maven (mvn) and Java to fetch it with")
        with tempfile.TemporaryDirectory() as folder:
            pom, found = Path(folder, "pom.xml"), Path(folder, "jars")
            pom.write_text(POM.format(version=VERSION), encoding="utf-8")
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={found}", "-DincludeScope=runtime"]
            done = subprocess.run(
                ["mvn", "-q", "-B", "-f", str(pom), *goal], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise NoKafka(f"Maven could not fetch Kafka {VERSION}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
            shutil.rmtree(JARS, ignore_errors=True)
            shutil.move(found, JARS)
    return f"{JARS}/*"


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class RealCluster:
    """See the module; a context manager, which ends every process that it started."""

    cluster_id = CLUSTER_ID

    def __init__(
        self,
        brokers: tuple[int, ...] = BROKERS,
        controllers: tuple[int, ...] = CONTROLLERS,
        config: Fields | None = None,
        *,
        dynamic: bool = False,
        features: dict[str, int] | None = None,
    ) -> None:
        self.class_path = jars()
        self.brokers, self.controllers, self.config, self.dynamic = brokers, controllers, config or {}, dynamic
        self.features = features or {}
        self.folder = Path(tempfile.mkdtemp(prefix="real-kafka-"))
        nodes = (*brokers, *controllers)
        self.ports = dict(zip(nodes, free_ports(len(nodes)), strict=True))
        self.advertised = dict(self.ports)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> RealCluster:
        try:
            for node in self.ports:
                self._configure(node)
            formats = [self._java(node, "kafka.tools.StorageTool", *self._format(node)) for node in self.ports]
            for node, process in zip(self.ports, formats, strict=True):
                assert process.wait() == 0, self._log(node)
            self.start(*self.ports)
            for node in self.ports:
                self.connect(node)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(*self.processes)
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- processes -----------------------------------------------------------------------------------------

    def _configure(self, node: int) -> None:
        role, name = ("broker", "PLAINTEXT") if node in self.brokers else ("controller", "CONTROLLER")
        voters = {each: f"127.0.0.1:{self.advertised[each]}" for each in self.controllers}
        values = CONFIG | SMALL | self.config
        values |= {
            "process.roles": role,
            "node.id": node,
            "listeners": f"{name}://127.0.0.1:{self.ports[node]}",
            "advertised.listeners": f"{name}://127.0.0.1:{self.advertised[node]}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self.data(node),
        }
        if self.dynamic:
            values["controller.quorum.bootstrap.servers"] = ",".join(voters.values())
        else:
            values["controller.quorum.voters"] = ",".join(f"{each}@{place}" for each, place in voters.items())
        text = "".join(
            f"{key}={str(value).lower() if value in (True, False) else value}\n" for key, value in values.items()
        )
        (self.folder / f"{node}.properties").write_text(text, encoding="utf-8")
        (self.folder / "log4j2.properties").write_text(LOGGING, encoding="utf-8")

    def data(self, node: int) -> Path:
        """Where a node keeps its logs."""
        return self.folder / f"{node}-data"

    def directory_id(self, node: int) -> str:
        """The id that a controller's directory is formatted with: 22 characters of base64."""
        return f"AAAAAAAAAAAAAAAAAA{node:03}A"

    def _format(self, node: int) -> list[str]:
        words = ["format", "-t", CLUSTER_ID, "-c", str(self.folder / f"{node}.properties")]
        words += [word for name, level in self.features.items() for word in ("--feature", f"{name}={level}")]
        if not self.dynamic:
            return words
        if node in self.brokers:
            return [*words, "--no-initial-controllers"]
        voters = [f"{each}@127.0.0.1:{self.ports[each]}:{self.directory_id(each)}" for each in self.controllers]
        return [*words, "--initial-controllers", ",".join(voters)]

    def _java(self, node: int, *words: str) -> subprocess.Popen[bytes]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")}
        with (self.folder / f"{node}.out").open("ab") as out:
            logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"
            command = ["java", *JVM, logging, "-cp", self.class_path, *words]
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.folder, env=environment
            )

    def _log(self, node: int) -> str:
        return (self.folder / f"{node}.out").read_text(encoding="utf-8", errors="replace")[-3000:]

    def kill(self, *nodes: int) -> None:
        """SIGKILL, and wait until they are gone."""
        ended = [self.processes.pop(node) for node in list(nodes) if node in self.processes]
        for process in ended:
            process.kill()
        for process in ended:
            process.wait()

    def start(self, *nodes: int) -> None:
        """See Cluster."""
        for node in nodes:
            self.processes[node] = self._java(node, "kafka.Kafka", str(self.folder / f"{node}.properties"))

    # ---- what the script asks for --------------------------------------------------------------------------

    def begin(self, topics: dict[str, Topic]) -> None:
        """See Cluster. Topics stay, as Kafka's sections share a cluster."""
        assert wait(self, lambda: len(metadata(self.connect(1)).brokers) == len(self.brokers), 60_000)
        created = [
            {
                "name": name,
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [{"partition_index": i, "broker_ids": ids} for i, ids in enumerate(topic.replicas)],
                "configs": [{"name": key, "value": value} for key, value in topic.config.items()],
            }
            for name, topic in topics.items()
        ]
        if created:
            answer = call(self.connect(1), "CreateTopics", 7, topics=created, timeout_ms=20_000, validate_only=False)
            for each in answer.topics:
                assert not each.error_code, f"{each.name}: {error(each.error_code)}"
        for name, topic in topics.items():
            assert wait(self, lambda name=name, topic=topic: self._is_up(name, len(topic.replicas[0])))
        self.sleep(500)

    def _is_up(self, topic: str, replicas: int) -> bool:
        for node in self.brokers:
            found = metadata(self.connect(node), topic).topics[0]
            if found.error_code or any(len(p.isr_nodes) != replicas or p.leader_id < 0 for p in found.partitions):
                return False
        return True

    def connect(self, node: int) -> WireConnection:
        """See Cluster; who was killed does not listen again, and who starts does soon."""
        process = self.processes.get(node)
        end = time.monotonic() + START_S
        while process is not None:
            try:
                return WireConnection(self.ports[node])
            except Closed:
                if process.poll() is not None or time.monotonic() > end:
                    raise AssertionError(f"Kafka's node {node} does not listen:\n{self._log(node)}") from None
                self.sleep(100)
        raise Closed

    def now_ms(self) -> int:
        """See Cluster."""
        return int(time.monotonic() * 1000)

    def wall_ms(self) -> int:
        """See Cluster."""
        return int(time.time() * 1000)

    def sleep(self, ms: int) -> None:
        """See Cluster."""
        time.sleep(ms / 1000)
