"""Do the findings on the real Kafka, and keep their transcripts: ``python -m tests.real_kafka.findings [NAME ...]``."""

from __future__ import annotations

import signal
import sys

from tests.real_kafka.findings import NAMES, TRANSCRIPTS, finding, reproduce


def main(names: list[str]) -> int:
    """Do these findings, or all. Exit status 1: one came out otherwise than it is known to; 2: there is no such one."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"no finding {', '.join(unknown)}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    status = 0
    TRANSCRIPTS.mkdir(parents=True, exist_ok=True)
    for name in names or NAMES:
        outcome, transcript = reproduce(name)
        (TRANSCRIPTS / f"{name}.txt").write_text(transcript.text(), encoding="utf-8")
        if outcome != finding(name).OUTCOME:
            print(f"{name} came out otherwise than it is known to: {finding(name).OUTCOME}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
