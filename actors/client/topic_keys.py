"""What the trace calls the partitions of a client whose topic was created anew (``actors.trace.events``).

A client speaks of partitions by name. Which of several topics of that name it means is what its metadata told it last;
sends and polls say it themselves, as what is under way may still be meant for the former topic.
"""

from __future__ import annotations

import msgspec

from actors.client.metadata_cache import MetadataCache
from actors.node.effects import AnyEffect, Record
from actors.trace.events import ConsPos, ErrorSeen, ListInvoke, ListReturn, MetaView, RpcQuiet


def name_topics(effects: list[AnyEffect], metadata: MetadataCache, listed: dict[str, str]) -> None:
    """Give the events of a step the keys of the partitions that they are about. ``listed``: operation -> key, of
    lookups under way to a topic that was created anew."""
    for index, effect in enumerate(effects):
        if isinstance(effect, Record):
            body = effect.event
            match body:
                case ListInvoke():
                    listed[body.op] = metadata.key(body.tp)
                    body = msgspec.structs.replace(body, tp=listed[body.op])
                case ListReturn():
                    body = msgspec.structs.replace(body, tp=listed.pop(body.op, body.tp))
                case ConsPos() | ErrorSeen():
                    body = msgspec.structs.replace(body, tp=metadata.key(body.tp)) if body.tp else body
                case RpcQuiet():
                    body = msgspec.structs.replace(body, beyond=metadata.key(body.beyond)) if body.beyond else body
                case MetaView():
                    body = _view(body, metadata)
            if body is not effect.event:
                effects[index] = Record(body)


def _view(view: MetaView, metadata: MetadataCache) -> MetaView:
    return msgspec.structs.replace(
        view,
        epochs={metadata.key(tp): epoch for tp, epoch in view.epochs.items()},
        accepted=[metadata.key(tp) for tp in view.accepted],
        leaders={metadata.key(tp): leader for tp, leader in view.leaders.items()},
    )
