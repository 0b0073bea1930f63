"""Where live nodes run, and what keeps outsiders from them: the options, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.errors import InputError
from orchestrator.cli.asked import Mistakes
from orchestrator.cli.where import Where


@pytest.mark.parametrize(
    ("where", "elsewhere"),
    [
        (Where("local", None, None, False), False),
        (Where("spark", None, None, False), False),
        (Where("spark", "spark://127.0.0.1:7077", None, False), False),
        (Where("spark", "spark://127.0.0.1:7077,10.0.0.2:7077", None, False), True),
        (Where("spark", "yarn", None, False), True),
        (Where("ray://localhost:10001", None, None, False), False),
        (Where("[::1]:6379", None, None, False), False),
        (Where("10.0.0.1:6379", None, None, False), True),
        (Where("head.ray.svc:6379", None, None, False), True),
    ],
)
def test_where_a_network_lies_between_nodes(where: Where, elsewhere: bool) -> None:
    """Shows which clusters are taken to be on other machines."""
    assert where.is_elsewhere == elsewhere


@pytest.mark.parametrize(
    ("where", "runtime", "says"),
    [
        (Where("10.0.0.1:6379", None, "off", False), "live", "anybody who reaches the other machines"),
        (Where("10.0.0.1:6379", None, "off", True), "live", ""),
        (Where("local", None, "off", False), "live", ""),
        (Where("local", None, "on", False), "live", "'on' is no directory; expected off, run, or a directory"),
        (Where("10.0.0.1:6379", None, "/secrets", False), "live", ""),
        (Where("local", None, "run", False), "sim", "a sim run sends nothing over a network"),
    ],
)
def test_what_is_wrong_with_tls(where: Where, runtime: str, says: str) -> None:
    """Shows that other machines are not used in the clear unless it is asked for by name, and the other mistakes."""
    mistakes = Mistakes()
    where.check(runtime, mistakes)
    if not says:
        mistakes.tell()
        return
    with pytest.raises(InputError, match=says):
        mistakes.tell()


def test_the_options_in_words(tmp_path: Path) -> None:
    """Shows that the command which does a run again has the options as they were given."""
    assert Where("local", None, None, False).words == ""
    assert Where("spark", "yarn", "off", True).words == " --cluster spark --master yarn --tls off --insecure"
    assert Where("local", None, "my certs", False).words == " --tls 'my certs'"
