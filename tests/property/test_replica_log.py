"""Property: a replica's log and its file never disagree, whatever is appended and cut."""

from hypothesis import given, strategies as st

from actors.log.batch import LogRecord
from actors.log.replica_log import ReplicaLog, load_log
from actors.node.codec import decode, encode
from actors.node.files import Files
from actors.node.step import Step
from tests.harness.host import Host

actions = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3), st.booleans()),
        st.tuples(st.just("truncate"), st.integers(0, 12), st.booleans()),
    ),
    max_size=25,
)


def apply_to_file(step: Step) -> list[bytes]:
    """What the log's file holds after the step's writes."""
    host = Host()
    host.carry_out(step.effects, 0)
    return host.disk.get("t-0/log", [])


@given(actions)
def test_log_and_file_agree(taken: list[tuple[str, int, bool]]) -> None:
    """Shows that the file alone gives the log back, and that a snapshot of the state does too."""
    log, step, files, epoch = ReplicaLog("t-0", "t-0/log"), Step(0), Files(), 0
    for number, (kind, n, bump) in enumerate(taken):
        epoch += bump
        if kind == "append":
            log.append_records(step, files, [LogRecord(0, f"{number}:{i}") for i in range(n)], epoch)
        else:
            log.truncate_to(step, files, n, "diverge", epoch)
        assert log.high_watermark <= log.end_offset
        assert log.ph_at(log.end_offset) == log.end_ph
    assert load_log("t-0", "t-0/log", apply_to_file(step)) == log
    assert decode(encode(log), ReplicaLog) == log


@given(actions, actions)
def test_equal_prefix_hashes_mean_equal_prefixes(
    left: list[tuple[str, int, bool]], right: list[tuple[str, int, bool]]
) -> None:
    """Shows that two logs have one prefix hash at a boundary exactly when they hold the same up to it."""
    logs = []
    for taken in (left, right):
        log, step, files = ReplicaLog("t-0", "t-0/log"), Step(0), Files()
        for kind, n, bump in taken:
            if kind == "append":
                log.append_records(step, files, [LogRecord(0, f"{i}") for i in range(n)], int(bump))
            else:
                log.truncate_to(step, files, n, "diverge", 0)
        logs.append(log)
    a, b = logs
    for first, second in zip(a.batches, b.batches, strict=False):
        same = [x.records for x in a.batches[: a.batches.index(first) + 1]] == [
            x.records for x in b.batches[: b.batches.index(second) + 1]
        ] and [x.epoch for x in a.batches[: a.batches.index(first) + 1]] == [
            x.epoch for x in b.batches[: b.batches.index(second) + 1]
        ]
        assert (first.ph == second.ph) == same
