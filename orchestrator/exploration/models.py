"""What is explored: the quorum, and the budgets that keep it finite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from actors.config import default_config
from actors.features import default_features
from actors.node.messages import Api
from actors.node.spec import FIRST_CONTROLLER_ID, ClusterSpec, NodeSpec, node_name
from actors.versions import API_VERSIONS
from orchestrator.exploration.cluster import CRASH, DROP, TIMEOUT, Used

QUORUM_APIS = (Api.Fetch, Api.ApiVersions, Api.Vote, Api.BeginQuorumEpoch, Api.EndQuorumEpoch)


class Model(msgspec.Struct, frozen=True):
    """A bounded part of all that voters can do.

    epochs: the highest one; what leads beyond it is left out. budgets: what a path may use of time-outs, crashes,
    dropped connections and appended records; one of them has to suffice. must: what has to be seen, or nothing was
    shown. fetching: followers' Fetches travel. looking: a voter that knows no leader looks for it with a Fetch to a
    voter that is drawn. led: begins with the first voter leading epoch 1. reduced: see ``Cluster``. states: where to
    stop.
    """

    name: str
    about: str
    epochs: int
    budgets: tuple[Used, ...]
    must: tuple[str, ...]
    fetching: bool = False
    looking: bool = False
    led: bool = False
    reduced: bool = True
    states: int = 300_000
    voters: int = 3
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
    )
}


def must_see(model: Model) -> list[str]:
    """What has to be seen of ``must`` within the bounds, which may have been changed."""
    beyond = set()
    if model.epochs < 2 or not any(caps[TIMEOUT] for caps in model.budgets):
        beyond |= {"second leader", "leadership changed hands", "divergence truncated"}
    if not any(caps[TIMEOUT] > 1 for caps in model.budgets):
        beyond.add("vote refused")
    if not any(caps[CRASH] for caps in model.budgets):
        beyond.add("crash")
    if not any(caps[DROP] for caps in model.budgets):
        beyond.add("connection dropped")
    return [mark for mark in model.must if mark not in beyond]


def with_voters(model: Model, features: Mapping[str, str], defects: Sequence[str]) -> Model:
    """The model with its voters, which have these features and defects."""
    ids = [FIRST_CONTROLLER_ID + index for index in range(model.voters)]
    directories = {voter: f"directory-of-{node_name(voter)}" for voter in ids}
    cluster = ClusterSpec("explored", ids, [], directories=directories)
    config = default_config("controller")
    config["controller.quorum.append.linger.ms"] = 0
    specs = tuple(
        NodeSpec(
            node_name(voter),
            "controller",
            voter,
            directories[voter],
            cluster,
            config,
            {**default_features(), **features},
            {api.name: list(API_VERSIONS[api]) for api in QUORUM_APIS},
            list(defects),
        )
        for voter in ids
    )
    return msgspec.structs.replace(model, specs=specs)
