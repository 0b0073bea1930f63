"""What a word means that a command is given, and what its variants are to each other."""

from __future__ import annotations

import pytest

from chaos.sources import find, from_text

VARIANTS = """
variants:
  off: {expect: {violated: [H1], may: [H6]}}
  half: {expect: {held: [H2], may: [H1]}}
  loses: {expect: {held: [H1], excused: [C1]}}
  quiet: {}
  other: {expect: {held: [H2]}}
  mended: {expect: {held: [H1, H2]}}
"""
PLAIN = """schema: krift/v1
name: small
duration: 2s
cluster: {topics: {orders: {replicas: [[1, 2, 3]]}}}
workload: [{consumer: {topic: orders}}]
"""


@pytest.mark.parametrize(
    ("name", "variant", "remedy"),
    [("kip-207", "off", "seed"), ("kip-207", "kafka", ""), ("finding-spinning-consumer", "kafka", "mended")],
)
def test_an_incident_has_a_remedy(name: str, variant: str, remedy: str) -> None:
    """Shows the variant in which what an incident violates holds; what violates nothing needs none."""
    assert find(name).remedy(variant) == remedy


def test_a_remedy_breaks_nothing_itself() -> None:
    """Shows that a variant which says what is to hold comes first, that one in which the same may break, or which gives
    something else up, is none, and that a nemesis has none."""
    source = from_text(PLAIN + VARIANTS, "small.yaml")
    assert source.remedy("off") == "mended"
    assert from_text(PLAIN + VARIANTS.partition("  mended")[0], "small.yaml").remedy("off") == "other"
    assert from_text(PLAIN + VARIANTS.partition("  quiet")[0], "small.yaml").remedy("off") == ""
    assert [source.remedy(each) for each in ("mended", "quiet", "nobody")] == ["", "", ""]
    assert find("unclean").remedy("") == ""
