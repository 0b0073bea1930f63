"""From a node's role to the class that plays it: what a runtime needs to bring a node to life."""

from __future__ import annotations

from actors.broker.broker_node import BrokerNode
from actors.client.admin import AdminNode
from actors.client.consumer import ConsumerNode
from actors.client.group_consumer import GroupConsumerNode
from actors.client.list_offsets_prober import ListOffsetsNode
from actors.client.mirror import MirrorNode
from actors.client.processor import ProcessorNode
from actors.client.producer import ProducerNode
from actors.client.transactional_producer import TransactionalProducerNode
from actors.controller.controller_node import ControllerNode
from actors.node.codec import decode
from actors.node.contract import Node
from actors.node.spec import Role
from actors.remote_store.remote_store_node import RemoteStoreNode

AnyNode = (
    ControllerNode
    | BrokerNode
    | RemoteStoreNode
    | ProducerNode
    | TransactionalProducerNode
    | ConsumerNode
    | GroupConsumerNode
    | MirrorNode
    | ProcessorNode
    | ListOffsetsNode
    | AdminNode
)

NODE_TYPES: dict[Role, type[AnyNode]] = {
    "controller": ControllerNode,
    "broker": BrokerNode,
    "remote-store": RemoteStoreNode,
    "producer": ProducerNode,
    "transactional-producer": TransactionalProducerNode,
    "consumer": ConsumerNode,
    "group-consumer": GroupConsumerNode,
    "mirror": MirrorNode,
    "processor": ProcessorNode,
    "list-offsets": ListOffsetsNode,
    "admin": AdminNode,
}


def new_node(role: Role) -> Node:
    """A node that has not been started: its first event must be Started."""
    return NODE_TYPES[role]()


def restore_node(role: Role, snapshot: bytes) -> Node:
    """A node as ``actors.node.codec.encode`` wrote it."""
    node: Node = decode(snapshot, NODE_TYPES[role])
    return node
