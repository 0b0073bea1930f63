"""Error codes of responses are found by what messages are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from actors.node.messages import RESPONSES, Api, is_error_code, response_errors

Field = descriptor_pb2.FieldDescriptorProto


def fill(message: Message, codes: Iterator[int]) -> list[int]:
    """Puts another number into each whole number that is called an error, one item into each list; returns the numbers,
    in the order of the fields."""
    put: list[int] = []
    for field in sorted(message.DESCRIPTOR.fields, key=lambda field: field.number):
        if field.message_type is not None:
            inner: Any = getattr(message, field.name)
            put += fill(inner.add() if field.is_repeated else inner, codes)
        elif "error" in field.name and field.cpp_type == FieldDescriptor.CPPTYPE_INT32:
            setattr(message, field.name, next(codes))
            put.append(getattr(message, field.name))
    return put


@pytest.mark.parametrize("api", Api, ids=lambda api: api.name)
def test_every_code_of_every_response(api: Api) -> None:
    """Shows that no error code of a response is missed, however deep it lies, and that each comes once, in order."""
    response = RESPONSES[api]()
    put = fill(response, iter(range(1, 100)))
    assert put, "every response of Kafka's can tell of an error"
    assert response_errors(response) == put


def strange() -> type[Message]:
    """A response as one of tomorrow may be: codes in lists and in a message that bear names which no other has."""
    file = descriptor_pb2.FileDescriptorProto(name="krift_test/strange.proto", package="krift_test", syntax="proto3")
    for name, fields in {
        "Leaf": [("acquire_error_code", Field.TYPE_INT32, ""), ("error_message", Field.TYPE_STRING, "")],
        "Group": [("error_code", Field.TYPE_INT32, ""), ("members", Field.TYPE_MESSAGE, "Leaf")],
        "Response": [
            ("coordinator", Field.TYPE_MESSAGE, "Leaf"),
            ("groups", Field.TYPE_MESSAGE, "Group"),
            ("error_code", Field.TYPE_INT32, ""),
        ],
    }.items():
        message = file.message_type.add(name=name)
        for number, (field, kind, of) in enumerate(fields, 1):
            many = kind == Field.TYPE_MESSAGE and field != "coordinator"
            label = Field.LABEL_REPEATED if many else Field.LABEL_OPTIONAL
            type_name = f".krift_test.{of}" if of else None
            message.field.add(name=field, number=number, type=kind, label=label, type_name=type_name)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("krift_test.Response"))


def test_codes_under_names_that_nobody_has_heard_of() -> None:
    """Shows that a code is found in a list, and in a message that is no list, by what it is and not by where."""
    response = strange()()
    assert fill(response, iter(range(1, 100))) == response_errors(response) == [1, 2, 3, 4]
    assert response_errors(strange()()) == []


def test_what_is_no_code() -> None:
    """Shows that a message or a text beside a code is none."""
    fields = strange().DESCRIPTOR.fields_by_name["coordinator"].message_type.fields_by_name
    assert is_error_code(fields["acquire_error_code"])
    assert not is_error_code(fields["error_message"])
