"""Ask the real Kafka, and keep what it says: ``python -m tests.real_kafka [SECTION ...]``."""

from __future__ import annotations

import json
import sys

from tests.real_kafka.cases import SECTIONS, run_section
from tests.real_kafka.outcomes import RECORDED, recorded
from tests.real_kafka.real_cluster import RealCluster


def main(names: list[str]) -> None:
    """Write the outcomes of these sections, or of all, beside those that are kept already."""
    kept = recorded() if RECORDED.exists() else {}
    with RealCluster() as cluster:
        for name in names or list(SECTIONS):
            kept[name] = run_section(name, cluster)
            print(f"{name}: {len(kept[name])} outcomes")
    ordered = {name: kept[name] for name in SECTIONS if name in kept}
    RECORDED.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
