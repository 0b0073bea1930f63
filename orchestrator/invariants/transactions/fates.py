"""How coordinators have decided the transactions of a producer id, each once, however often it is told."""

from __future__ import annotations

import msgspec

from actors.trace.events import Stamped, TxnLoad, TxnState
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.transactions.decided import COMPLETE, EPOCH_BUMP, REMEMBERED


class Fate(msgspec.Struct, frozen=True, gc=False):
    """How a coordinator decided a transaction. ``data_epoch``: producer epoch of its records; ``begins``: how many had
    been begun in that epoch by then. ``offset``: of the record, or ``loaded``: of the last one that another coordinator
    has read, in ``coordinator_epoch``."""

    data_epoch: int
    commits: bool
    by: Witness
    begins: int = 0
    offset: int = -1
    coordinator_epoch: int = -1
    loaded: bool = False


class Fates(msgspec.Struct):
    """Of a producer id. ``last``: the last ones; ``completed``: a coordinator has completed the last one.
    ``coordinator_epoch``: the newest one of who decided; ``rewound``: the log of the coordinator that began last lacks
    the last decision."""

    last: list[Fate] = []
    completed: bool = False
    coordinator_epoch: int = -1
    rewound: bool = False

    def note(self, event: Stamped, data_epoch: int, commits: bool, begins: int = 0) -> None:
        """A coordinator has decided a transaction, or another one has read that first."""
        body = event.body
        assert isinstance(body, TxnState | TxnLoad)
        loaded = type(body) is TxnLoad
        offset = body.end - 1 if isinstance(body, TxnLoad) else body.log_offset
        epoch = body.coordinator_epoch
        self.last.append(Fate(data_epoch, commits, witness(event), begins, offset, epoch, loaded))
        self.coordinator_epoch = max(self.coordinator_epoch, epoch)
        self.completed = False
        del self.last[:-REMEMBERED]

    def goes_on(self, state: str, coordinator_epoch: int) -> None:
        """A coordinator moves the transactional id on into a state, or finds it there: the former one may have written
        that the transaction is complete, and not have lived to say so."""
        if coordinator_epoch >= self.coordinator_epoch and state in COMPLETE:
            self.completed = True

    def is_told_again(self, event: Stamped, data_epoch: int, commits: bool, version: int, as_asked: bool) -> bool:
        """Whether a decision is one that is known, from who decided so or has read it. A coordinator that is replaced
        learns late that its decision is committed, which its successor has read long since, and may itself read its log
        late. Below transaction.version 2 transactions share an epoch: a load tells the last decision, or, from a log
        that has lost its end, any. ``as_asked``: the application has asked for this end of its open transaction."""
        body = event.body
        assert isinstance(body, TxnState | TxnLoad)
        alike = [each for each in self.last if (each.data_epoch, each.commits) == (data_epoch, commits)]
        if not isinstance(body, TxnLoad):
            self.rewound = False
            return any(
                each.loaded and each.coordinator_epoch > body.coordinator_epoch and each.offset >= body.log_offset
                for each in alike
            )
        if body.coordinator_epoch < self.coordinator_epoch:
            return True
        if version >= EPOCH_BUMP or not self.last:
            return bool(alike)
        self.rewound = self.rewound or body.end <= self.last[-1].offset
        if self.rewound:
            return bool(alike) and not as_asked
        # If the last one is complete, its former coordinator did not live to say that it decided the next one, too.
        return self.last[-1] in alike and not (self.completed and as_asked)
