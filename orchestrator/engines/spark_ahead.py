"""A Spark session that comes up beside other work, so that nobody waits for it who needs it later."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Start = Callable[[], "SparkSession"]
WarmUp = Callable[["SparkSession"], None]


class SparkAhead:
    """Brings a session up in a thread of its own. First it is prepared: what shows that it can come up, and costs
    little. Once ``go_on`` is called, or somebody asks for it, it is started and warmed up, which keeps cores busy for a
    while. ``prepare`` and ``start`` may raise anything: who asks for the session starts it again, in the foreground,
    and is told the same."""

    def __init__(self, prepare: Callable[[], None], start: Start, warm_up: WarmUp) -> None:
        self._prepare = prepare
        self._start = start
        self._warm_up = warm_up
        self._session: SparkSession | None = None
        self._failed = False
        self._wanted = Event()
        self._over = Event()
        """Somebody has ended it: what still waits need not begin."""
        self._up = Event()
        # Not a daemon: a JVM that is half up when this process ends would stay.
        self._thread = Thread(target=self._work, name="spark-ahead")

    def begin(self) -> None:
        """Let it be prepared."""
        self._thread.start()

    def go_on(self) -> None:
        """Let it come up: there are cores for it now."""
        self._wanted.set()

    def _work(self) -> None:
        try:
            self._prepare()
            self._wanted.wait()
            if not self._over.is_set():
                self._session = self._start()
        except BaseException:  # noqa: BLE001  (told where somebody asks for the session)
            self._failed = True
            return
        finally:
            self._up.set()
        if self._session is not None and not self._over.is_set():
            # What fails here fails again where somebody waits for it, unless the command has ended Spark meanwhile.
            with suppress(Exception):
                self._warm_up(self._session)

    @property
    def failed(self) -> bool:
        """Whether it is known that it did not come up."""
        return self._failed

    def session(self) -> SparkSession:
        """The session, once it is up; started here if it could not be started ahead. Raises what ``start`` raises."""
        self.go_on()
        self._up.wait()
        if self._session is None:
            self._session = self._start()
        return self._session

    def end(self) -> None:
        """Stop the session, also one that is still coming up, and return when nothing of it goes on."""
        self._over.set()
        self.go_on()
        if self._thread.ident is not None:
            self._up.wait()
        if self._session is not None:
            with suppress(Exception):
                self._session.sparkContext.cancelAllJobs()
            self._session.stop()
        if self._thread.ident is not None:
            self._thread.join()
