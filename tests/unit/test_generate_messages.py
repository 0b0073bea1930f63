"""What is generated from the sources of messages, tried on sources that nobody has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc_tools
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc

import generate_messages
from krift.v1 import options_pb2
from proto_sources import SourceError, Sources
from tests.architecture.sources import ROOT

HEAD = """
edition = "2023";
package krift.v1;
import "krift/v1/common.proto";
import "krift/v1/options.proto";
"""
STRANGE = """
message StrangeRequest {
  RequestHeader header = 1;
  string late = 3 [(versions) = "2+"];
  string early = 2 [(nullable) = true, (versions) = "0-1"];
  bool on = 4 [default = true, (versions) = "1"];
}
message StrangeResponse {
  ResponseHeader header = 1;
  message Leaf {
    int32 acquire_error_code = 1;
    string error_message = 2;
  }
  message Group {
    int32 error_code = 1;
    repeated Leaf members = 2;
  }
  Leaf coordinator = 2;
  repeated Group groups = 3;
  int32 error_code = 4;
}
"""
SERVICE = """
service StrangeService {{
  rpc Strange(StrangeRequest) returns (StrangeResponse) {{
    option (api) = {{ key: 7 versions: "0-2" servers: ["{server}"] }};
  }}
}}
"""


def sources(folder: Path, text: str) -> Sources:
    """These sources, and the common ones."""
    package = folder / "krift" / "v1"
    package.mkdir(parents=True)
    for name in ("common", "options"):
        (package / f"{name}.proto").write_bytes((ROOT / "proto" / "krift" / "v1" / f"{name}.proto").read_bytes())
    (package / "strange.proto").write_text(HEAD + text)
    out = folder / "descriptors"
    names = ["krift/v1/common.proto", "krift/v1/strange.proto"]
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    assert not protoc.main(["protoc", f"-I{folder}", f"-I{well_known}", f"--descriptor_set_out={out}", *names])
    return Sources(list(FileDescriptorSet.FromString(out.read_bytes()).file), options_pb2)


def executed(text: str, **known: Any) -> dict[str, Any]:
    """What a module has; of its imports those of other generated modules are left out."""
    kept = [line for line in text.splitlines() if not line.startswith("from krift.v1 import ")]
    names: dict[str, Any] = {**known, "__name__": "generated"}
    exec(compile("\n".join(kept), "generated", "exec"), names)
    return names


class Module:
    """Generated classes as a module has them."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.__dict__.update(names)


def test_fields_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """Shows that arrays in journals keep their order when a source is put in another order, and which defaults fields
    have."""
    found = sources(tmp_path, STRANGE)
    request = executed(generate_messages.structs("strange", found.modules["strange"]))["StrangeRequest"]
    assert request.__struct_fields__ == ("header", "early", "late", "on")
    made = request()
    assert (made.early, made.late, made.on) == (None, "", True)
    assert made.header.correlation_id == 0


def test_versions_and_codes_under_names_that_nobody_has_heard_of(tmp_path: Path) -> None:
    """Shows that a field in a version that lacks it is found unless it has its default, and that a code is found by
    what it is, in a part, a list, and a list in a list, in the order of the fields."""
    found = sources(tmp_path, STRANGE + SERVICE.format(server="broker"))
    strange = Module(executed(generate_messages.structs("strange", found.modules["strange"])))
    checks = executed(generate_messages.checks(found), strange=strange)
    check, request, response = checks["check_fields"], strange.StrangeRequest, strange.StrangeResponse  # type: ignore[attr-defined]
    check(request(late="x"), 2)
    check(request(early="", on=False), 1)
    for wrong, version, name in (
        (request(late="x"), 1, "late"),
        (request(early=""), 2, "early"),
        (request(on=False), 2, "on"),
    ):
        with pytest.raises(checks["VersionError"], match=f"StrangeRequest.{name} does not exist in version {version}"):
            check(wrong, version)
    leaf, group = response.Leaf, response.Group
    answer = response(
        coordinator=leaf(acquire_error_code=1, error_message="no code"),
        groups=[group(error_code=2, members=[leaf(), leaf(acquire_error_code=3)])],
        error_code=4,
    )
    assert checks["response_errors"](answer) == [1, 2, 3, 4]
    assert checks["response_errors"](response()) == []


def test_the_registry_takes_what_a_method_says(tmp_path: Path) -> None:
    """Shows that an API has the key, versions and servers of its method's option."""
    found = sources(tmp_path, STRANGE + SERVICE.format(server="broker"))
    strange = Module(executed(generate_messages.structs("strange", found.modules["strange"])))
    names = executed(generate_messages.apis(found), strange=strange)
    spec = names["APIS"][names["Api"].Strange]
    assert (int(spec.api), spec.versions, spec.servers, spec.errors) == (7, (0, 2), ("broker",), ())
    assert spec.request is strange.StrangeRequest  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (STRANGE + SERVICE.format(server="bystander"), "Strange must say its versions and its servers"),
        (STRANGE + SERVICE.format(server="broker").replace('versions: "0-2"', ""), "Strange must say its versions"),
        ("message Real { double value = 1; }", "Real.value is of a type that nobody generates"),
        ('message Text { string value = 1 [default = "x"]; }', "value: only numbers and truth values have defaults"),
    ],
)
def test_a_source_that_asks_for_what_there_is_not(tmp_path: Path, text: str, said: str) -> None:
    """Shows that the build fails with the culprit's name, rather than generate something else."""
    with pytest.raises(SourceError, match=said):
        sources(tmp_path, text)
