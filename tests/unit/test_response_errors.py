"""Error codes of responses are found by what messages are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from actors.node.messages import RESPONSES, Api, response_errors
from krift.v1.message import Message


def fill(message: Any, codes: Iterator[int]) -> list[int]:
    """Puts another number into each whole number that is called an error, one item into each list; returns the numbers,
    in the order of the fields."""
    put: list[int] = []
    for name, kind in get_type_hints(type(message)).items():
        parts = [each for each in get_args(kind) if isinstance(each, type) and issubclass(each, Message)]
        if parts:
            inner = parts[0]()
            put += fill(inner, codes)
            setattr(message, name, [inner] if get_origin(kind) is list else inner)
        elif "error" in name and kind is int:
            setattr(message, name, next(codes))
            put.append(getattr(message, name))
    return put


@pytest.mark.parametrize("api", Api, ids=lambda api: api.name)
def test_every_code_of_every_response(api: Api) -> None:
    """Shows that no error code of a response is missed, however deep it lies, and that each comes once, in order."""
    response = RESPONSES[api]()
    put = fill(response, iter(range(1, 100)))
    assert put, "every response of Kafka's can tell of an error"
    assert response_errors(response) == put
