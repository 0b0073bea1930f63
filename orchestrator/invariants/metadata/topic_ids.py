"""M9: topics that were made anew."""

from __future__ import annotations

import msgspec

from actors.node.spec import split_topic_partition
from actors.trace.events import MetaView, NodeUp, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.routes import NODE

NOBODY = -1


class Known(msgspec.Struct, frozen=True):
    """The leader epoch that a client took over for a partition, of a topic id."""

    topic_id: str
    epoch: int
    by: Witness


class Topics(State):
    """Of one client in one incarnation. ids: topic -> its id; partitions: what it took over last, by topic
    partition."""

    ids: dict[str, str] = {}
    partitions: dict[str, Known] = {}


class RecreatedTopicsAreNew(KeyedInvariant[Topics]):
    """A topic that is deleted and created again has the same name, and leader epochs from 0 on. A client that compares
    them with those of the old topic refuses the new leaders for ever.

    Example: consumer-1 knows leader epoch 9 of orders-0. The topic is deleted and created again; the answer with the
    new topic id says that broker-2 leads in leader epoch 0, and the client keeps the leader of the old topic.
    """

    id = "M9"
    title = "A client accepts a topic that was deleted and created again, whatever its leader epochs"
    source = "KAFKA-12257; KIP-516; Kafka's Metadata.updateLatestMetadata"
    tested_when = "a client that knows a topic gets another topic id for it"
    route = NODE
    types = (NodeUp, MetaView)
    at = {"kip-232": "kafka"}
    unseen = (
        "Whether the new topic id is the newer one: no field of an answer says so, and Kafka's clients accept it.",
        "Whether the client makes progress with the new topic: L5, L6 and L16 judge that for every client.",
    )

    def initial(self, key: str, profile: Profile) -> Topics:
        return Topics(key)

    def step(self, state: Topics, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is NodeUp:
            state.ids, state.partitions = {}, {}
            return NOTHING
        assert type(body) is MetaView
        found: Emissions = NOTHING
        for tp, epoch in body.epochs.items() if body.source != "heard" else ():
            topic = split_topic_partition(tp)[0]
            told, known = body.topic_ids.get(topic, ""), state.ids.get(topic, "")
            if told and known and told != known:
                state.tested += 1
                if tp not in body.accepted:
                    before = state.partitions.get(tp)
                    sentence = (
                        f"{event.node} did not take over leader epoch {epoch} of {tp} from {body.server}, although "
                        f"the topic has a new id, {told} in place of {known}"
                    )
                    found = self.violated(state.key, sentence, None if before is None else before.by, event)
            if tp in body.accepted:
                state.partitions[tp] = Known(told or known, epoch, witness(event))
        state.ids.update(body.topic_ids)
        return found
