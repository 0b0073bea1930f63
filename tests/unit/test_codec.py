"""The codec of node state, events and effects: every message survives it."""

import pytest

from actors.node.codec import decode, encode
from actors.node.events import Answered, Received
from actors.node.messages import REQUESTS, RESPONSES, Api


@pytest.mark.parametrize("api", list(Api), ids=lambda api: api.name)
def test_every_request_and_response_survives_the_codec(api: Api) -> None:
    """Shows that no message collides with a type of msgpack's own (Produce's response once met its timestamp)."""
    request, response = REQUESTS[api](), RESPONSES[api]()
    request.header.client_id = "c"
    assert decode(encode(Received("a>b#0", request)), Received).request == request
    assert decode(encode(Answered(1, response)), Answered).response == response
