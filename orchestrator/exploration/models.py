"""What is explored: the nodes, and the budgets that keep it finite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from actors.config import default_config
from actors.features import default_features
from actors.metadata.metadata_state import TRANSACTION_FEATURE
from actors.node.messages import Api
from actors.node.spec import FIRST_CONTROLLER_ID, ClusterSpec, NodeSpec, node_name
from actors.versions import API_VERSIONS, default_ranges
from orchestrator.exploration.cluster import CRASH, DROP, Cluster, Used
from orchestrator.exploration.judge import Judge
from orchestrator.exploration.promises import QUORUM_PROMISES, QuorumJudge
from orchestrator.exploration.transaction_promises import TRANSACTION_PROMISES, TransactionJudge
from orchestrator.exploration.transactions import ELECTED, TransactionCluster
from orchestrator.exploration.voters import TIMEOUT, VoterCluster

QUORUM_APIS = (Api.Fetch, Api.ApiVersions, Api.Vote, Api.BeginQuorumEpoch, Api.EndQuorumEpoch)


class Subject(msgspec.Struct, frozen=True):
    """What models of one kind of nodes have in common. budgets: names of what is budgeted, several and one; node: what
    one is called; begins: how a search begins, and what its opening did; defects: where those are that it can show;
    promises: with the invariants that make them; marks: what can be seen."""

    budgets: tuple[tuple[str, str], ...]
    node: str
    begins: str
    opening: str
    defects: tuple[str, ...]
    promises: Mapping[str, str]
    marks: tuple[str, ...]


SUBJECTS: dict[str, Subject] = {
    "voters": Subject(
        (
            ("timeouts", "timeout"),
            ("crashes", "crash"),
            ("dropped connections", "dropped connection"),
            ("records", "record"),
        ),
        "voter",
        "from empty disks",
        "that elected controller-1",
        ("actors.quorum",),
        QUORUM_PROMISES,
        (
            *("leader", "second leader", "third leader", "leadership changed hands", "leader resigned", "candidate"),
            *("vote granted", "vote refused", "pre-vote granted", "pre-vote refused", "committed"),
            *("divergence truncated", "crash", "connection dropped", "request of one that gave up"),
        ),
    ),
    "transactions": Subject(
        (
            ("elections", "election"),
            ("crashes", "crash"),
            ("dropped connections", "dropped connection"),
            ("requests", "request"),
        ),
        "broker",
        "from empty disks",
        "that began a transaction",
        ("actors.broker", "actors.broker.transaction_coordinator"),
        TRANSACTION_PROMISES,
        (
            *("commit decided", "abort decided", "commit marker", "abort marker", "commit completed"),
            *("abort completed", "coordinator failed over", "markers resumed", "markers sent again"),
            *("markers given up", "divergence truncated", "leadership moved", "crash", "connection dropped"),
            "request of one that gave up",
        ),
    ),
}


class Model(msgspec.Struct, frozen=True):
    """A bounded part of all that nodes can do.

    budgets: what a path may use of what ``SUBJECTS`` names, in that order; one of them has to suffice. must: what has
    to be seen, or nothing was shown. reduced: see ``Cluster``. states: where to stop. nodes: how many there are.

    Of voters: epochs: the highest one; what leads beyond it is left out. fetching: followers' Fetches travel. looking:
    a voter that knows no leader looks for it with a Fetch to a voter that is drawn. led: begins with the first voter
    leading epoch 1.

    Of transactions: logs: ids of the replicas of the transaction log, the first of which leads; data: those of each
    partition in the transaction.
    """

    name: str
    about: str
    budgets: tuple[Used, ...]
    must: tuple[str, ...]
    subject: Literal["voters", "transactions"] = "voters"
    epochs: int = 0
    fetching: bool = False
    looking: bool = False
    led: bool = False
    reduced: bool = True
    states: int = 300_000
    nodes: int = 3
    logs: tuple[int, ...] = ()
    data: tuple[tuple[int, ...], ...] = ()
    specs: tuple[NodeSpec, ...] = ()


MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model(
            "election",
            "An election among three voters, from empty disks, and the one after it.",
            epochs=2,
            budgets=((2, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0)),
            must=("leader", "second leader", "leadership changed hands", "vote refused", "crash", "connection dropped"),
        ),
        Model(
            "replication",
            "The replication of what a leader appends, and a change of leader meanwhile.",
            epochs=2,
            budgets=((1, 0, 0, 0), (0, 1, 0, 1)),
            must=("second leader", "leadership changed hands", "committed", "divergence truncated", "crash"),
            fetching=True,
            led=True,
        ),
        Model(
            "transaction-commit",
            "The commit of a transaction on two partitions, and its coordinator's failover.",
            budgets=((1, 0, 1, 1), (1, 0, 0, 2), (0, 1, 0, 2)),
            states=1_000_000,
            must=(
                *("coordinator failed over", "markers resumed", "markers sent again", "commit completed"),
                *("leadership moved", "crash", "connection dropped"),
            ),
            subject="transactions",
            nodes=2,
            logs=(1, 2),
            data=((2, 1), (1,)),
        ),
    )
}


def must_see(model: Model) -> list[str]:
    """What has to be seen of ``must`` within the bounds, which may have been changed."""
    beyond = set()
    if not any(caps[CRASH] for caps in model.budgets):
        beyond.add("crash")
    if not any(caps[DROP] for caps in model.budgets):
        beyond.add("connection dropped")
    beyond |= _beyond_of_voters(model) if model.subject == "voters" else _beyond_of_transactions(model)
    return [mark for mark in model.must if mark not in beyond]


def _beyond_of_voters(model: Model) -> set[str]:
    beyond = set()
    if model.epochs < 2 or not any(caps[TIMEOUT] for caps in model.budgets):
        beyond |= {"second leader", "leadership changed hands", "divergence truncated"}
    if not any(caps[TIMEOUT] > 1 for caps in model.budgets):
        beyond.add("vote refused")
    return beyond


def _beyond_of_transactions(model: Model) -> set[str]:
    beyond = set()
    if not any(caps[ELECTED] for caps in model.budgets):
        beyond.add("leadership moved")
    if not any(caps[ELECTED] or caps[CRASH] for caps in model.budgets):
        beyond |= {"coordinator failed over", "markers resumed", "divergence truncated"}
    if not any(caps[ELECTED] or caps[CRASH] or caps[DROP] for caps in model.budgets):
        beyond.add("markers sent again")
    return beyond


def explored(model: Model) -> tuple[Cluster[Any, Any], Judge[Any, Any]]:
    """The nodes of a model, and who judges them."""
    if model.subject == "transactions":
        level = int(model.specs[0].features[TRANSACTION_FEATURE])
        brokers = TransactionCluster(model.specs, model.logs, model.data, level)
        return brokers, TransactionJudge(brokers)
    voters = VoterCluster(model.specs, model.fetching, model.looking, model.reduced, model.led)
    return voters, QuorumJudge(voters.places, model.epochs)


def with_nodes(model: Model, features: Mapping[str, str], defects: Sequence[str]) -> Model:
    """The model with its nodes, which have these features and defects."""
    everything = {**default_features(), **features}
    specs = _voters if model.subject == "voters" else _brokers
    return msgspec.structs.replace(model, specs=specs(model, everything, list(defects)))


def _voters(model: Model, features: dict[str, str], defects: list[str]) -> tuple[NodeSpec, ...]:
    ids = [FIRST_CONTROLLER_ID + index for index in range(model.nodes)]
    directories = {voter: f"directory-of-{node_name(voter)}" for voter in ids}
    cluster = ClusterSpec("explored", ids, [], directories=directories)
    config = default_config("controller")
    config["controller.quorum.append.linger.ms"] = 0
    versions = {api.name: list(API_VERSIONS[api]) for api in QUORUM_APIS}
    return tuple(
        NodeSpec(
            node_name(voter),
            "controller",
            voter,
            directories[voter],
            cluster,
            config,
            features,
            versions,
            defects,
        )
        for voter in ids
    )


def _brokers(model: Model, features: dict[str, str], defects: list[str]) -> tuple[NodeSpec, ...]:
    """Brokers without fetch sessions: their ids and what is cached of them are no part of what is looked for."""
    ids = list(range(1, model.nodes + 1))
    cluster = ClusterSpec("explored", [FIRST_CONTROLLER_ID], ids)
    config = {**default_config("broker"), "max.incremental.fetch.session.cache.slots": 0}
    return tuple(
        NodeSpec(
            node_name(broker),
            "broker",
            broker,
            f"directory-of-{node_name(broker)}",
            cluster,
            config,
            features,
            default_ranges(),
            defects,
        )
        for broker in ids
    )
