"""Processes that share the tranches of one processor by leases in a database, and checks of their work.

Time passes when it is told to, for all of them and for their database; processes stand still, and some for ever.
"""

import asyncio
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, Final, Literal, TypeAlias

import psycopg

from penstock.core.groups.leases import GroupLeases, MemberTranches
from penstock.errors import ParkedNotFound
from penstock.processing import DatabaseCheckpoints, LocalProcessor, Rules, Transactional
from penstock.processing.checkpoints import DatabaseLeases
from penstock.processing.checkpoints.checkpoint import Advance
from penstock.processing.together import Span
from tests.processing.duties import Duties
from tests.processing.lives import Log
from tests.processing.office import SOON_SECONDS, until
from tests.processing.standstill import Standstill

Kind: TypeAlias = Literal["transactional", "threads", "coroutines"]
NAME: Final = "shared"
LEASE_SECONDS: Final = 8.0
QUARTER_SECONDS: Final = LEASE_SECONDS / 4
STREAMS_MAX: Final = 3
SIZE: Final = 3
LASTS_SECONDS: Final = 0.004
"""So long a call goes on at most, unless it lasts too long."""
LATE_SECONDS: Final = 0.1
"""So long one does that lasts too long, unless a whole lease passes sooner."""
LAGS_SECONDS: Final = 0.6
"""So far the clock of its process is ahead then."""
BRIEF: Final = 2
"""Quarters of a lease for which a process may stand still without anybody taking it for gone."""
_NUMBER: Final = {"sqlite": "integer PRIMARY KEY", "postgresql": "bigint GENERATED ALWAYS AS IDENTITY"}


class Crew:
    """The processes, their log, and the part of it that they have done.

    Args:
        url: Of the database.
        kind: What handlers they have.
        rules: What they keep to.
        duties: What handlers do.
    """

    def __init__(self, url: str, kind: Kind, rules: Rules, duties: Duties) -> None:
        self.url = url
        self.kind = kind
        self.rules = rules
        self.duties = duties
        self.log = Log("a", "b")
        self.passed_seconds = 0.0
        self.calls = 0
        self.changed = threading.Condition(threading.RLock())
        self.wrong: list[str] = []
        self._running: list[Process] = []
        self._dead: list[Process] = []
        self._active: list[tuple[Process, str]] = []
        self._done: Counter[str] = Counter()
        self._checkpoints = DatabaseCheckpoints(self._open, NAME)
        self._checkpoints.create()
        with self.looking() as connection:
            if self.is_sqlite:
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(
                f"CREATE TABLE effects (number {_NUMBER[url.partition(':')[0]]}, stream text NOT NULL, n int NOT NULL)"
            )

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite")

    @contextmanager
    def looking(self) -> Iterator[Any]:
        """Lend a connection of nobody's."""
        with closing(self._open()) as connection:
            yield connection

    # What happens, in the order that is drawn.

    def begin(self) -> None:
        """Have one more process begin, and the others hear of it, unless there are as many as may be."""
        if len(self._running) < SIZE:
            self._running.append(Process(self))
            for _ in range(3):
                self.pass_time()

    def end(self, number: int) -> None:
        """Have one end in order, while the others go on."""
        if self._running:
            self._running.pop(number % len(self._running)).processor.stop()

    def kill(self, number: int) -> None:
        """Have one stand still until all is over."""
        if self._running:
            process = self._running.pop(number % len(self._running))
            process.stand_still(is_doubtful=True)
            self._dead.append(process)

    def stand(self, numbers: Collection[int], quarters: int) -> None:
        """Have some stand still for so many quarters of a lease, while the others go on."""
        standing = [process for number, process in enumerate(self._running) if number in numbers]
        for process in standing:
            process.stand_still(is_doubtful=quarters > BRIEF)
        for _ in range(quarters):
            self.pass_time()
        for process in standing:
            process.standstill.end()
        for _ in range(2):  # After that they know whether their leases are over.
            self.pass_time()
        for process in standing:
            process.await_what_was_begun()

    def mend(self, count: int) -> None:
        """Mend some of the events that fail."""
        self.duties.mend(count)

    def retry(self) -> None:
        """Have all be tried again that is parked."""
        for stream in self._left():
            with suppress(ParkedNotFound):  # It was asked for before, and is done meanwhile.
                self._checkpoints.ask(stream, "retry")

    def work(self, calls: int) -> None:
        """Wait until so many calls have been made, or for a moment if no more come."""
        with self.changed:
            wanted = self.calls + calls
            self.changed.wait_for(lambda: self.calls >= wanted, 0.03)

    def pass_time(self) -> None:
        """Let a quarter of a lease pass, in which all give a sign that do not stand still."""
        going = [each for each in self._running if not each.standstill.is_on]
        before = {each: each.signs for each in going}
        with self.changed:
            self.passed_seconds += QUARTER_SECONDS
            self.changed.notify_all()
        until(lambda: all(each.has_ended or each.signs > before[each] for each in going), *(p.processor for p in going))
        assert not any(each.has_ended for each in going), [each.processor._error for each in going]

    def finish(self) -> None:
        """Have all be done, and nothing be done anew when those wake up that are dead."""
        self.duties.calm()
        self.begin()
        deadline = time.monotonic() + SOON_SECONDS
        while not self._is_over():
            assert time.monotonic() < deadline, f"left behind: {self._checkpoints.positions()}, {self._left()}"
            self.retry()
            self.pass_time()
        self.check_all()
        self.close()
        self.check_all()

    def close(self) -> None:
        """Have those that are dead wake up, and all end."""
        processes = [*self._running, *self._dead]
        self._running, self._dead = [], []
        for process in processes:
            process.standstill.end()
        for process in processes:
            process.processor.stop()

    # What they tell.

    def await_a_lease(self, seconds: float) -> None:
        """Wait until a lease has passed, but not for longer than so many seconds."""
        with self.changed:
            until_seconds = self.passed_seconds + LEASE_SECONDS
            self.changed.wait_for(lambda: self.passed_seconds >= until_seconds, seconds)

    def enter(self, process: "Process", stream: str) -> None:
        """Be told that a call begins."""
        with self.changed:
            self.calls += 1
            others = [each for each, name in self._active if name == stream and not each.is_doubtful]
            if others and not process.is_doubtful:
                self.wrong.append(f"two calls at once for {stream}")
            self._active.append((process, stream))
            self.changed.notify_all()

    def leave(self, process: "Process", stream: str) -> None:
        """Be told that it has ended."""
        with self.changed:
            self._active.remove((process, stream))

    def do(self, stream: str, events: Sequence[Any]) -> None:
        """Note events that were handled outside a transaction; they may be repeats."""
        with self.changed:
            for event in events:
                if event.index > self._done[stream]:
                    self.wrong.append(f"{stream} has {event.index} done, where {self._done[stream]} came next")
                self._done[stream] = max(self._done[stream], event.index + 1)

    def check(self, advance: Advance, connection: Any) -> None:
        """Be told of a commit, which *connection* sees: no position goes back, or passes what is not done or parked."""
        found = connection.execute("SELECT stream, first_index FROM penstock_checkpoints_parked").fetchall()
        parked, done = dict(found), self._handled(connection)
        for tranche, (before, after) in advance.moves.items():
            if before is not None and int(after) < int(before):
                self.wrong.append(f"{tranche} goes from {before} to {after}")
            self.wrong += [
                f"{tranche} is at {after}, and {stream} is done to {done.get(stream, 0)}"
                for batch in self.log.batches[tranche][: int(after)]
                for stream, index in batch
                if done.get(stream, 0) <= index < parked.get(stream, index + 1)
            ]

    def check_all(self) -> None:
        """Check that nothing was wrong, and that all is done: by transactions, once and in order."""
        assert not self.wrong
        if self.kind != "transactional":
            assert self._done == self.log.counts
            return
        effects: dict[str, list[int]] = {}
        with self.looking() as connection:
            for stream, index in connection.execute("SELECT stream, n FROM effects ORDER BY number").fetchall():
                effects.setdefault(stream, []).append(index)
        assert effects == {stream: [*range(count)] for stream, count in self.log.counts.items()}

    def _handled(self, connection: Any) -> Mapping[str, int]:
        if self.kind != "transactional":
            with self.changed:
                return dict(self._done)
        return dict(connection.execute("SELECT stream, count(*) FROM effects GROUP BY stream").fetchall())

    def _is_over(self) -> bool:
        positions = self._checkpoints.positions()
        return not self._left() and all(positions.get(each) == len(found) for each, found in self.log.batches.items())

    def _left(self) -> list[str]:
        return [each.stream for each in self._checkpoints.parked()]

    def _open(self) -> Any:
        return open_connection(self.url)


class Process:
    """One of a crew, from its beginning on: a processor whose connections, clock and leases are its own."""

    def __init__(self, crew: Crew) -> None:
        self.signs = 0
        """How often it has said that it is there."""
        self.standstill = Standstill()
        self.is_doubtful = False
        """Whether it may do something while others have its tranches, having stood still for so long."""
        self._crew = crew
        self._ahead_seconds = 0.0
        self._entered: list[str] = []
        checkpoints, rules = Kept(self), crew.rules
        together = Transactional(self.connect, self.write, checkpoints, streams_max=STREAMS_MAX, ended=self.ended)
        handlers: dict[Kind, Any] = {"transactional": together, "threads": self.called, "coroutines": self.awaited}
        self.processor = LocalProcessor(
            handlers[crew.kind], crew.log.source, checkpoints=checkpoints, leases=Leases(self), rules=rules,
            commit_interval=0.01, stats_interval=None, clock=self.clock,
        ).start()  # fmt: skip

    @property
    def crew(self) -> Crew:
        return self._crew

    @property
    def has_ended(self) -> bool:
        return self.processor._ended.is_set()

    def clock(self) -> float:
        """Return the time, when it goes on."""
        self.standstill.pass_by()
        return time.monotonic() + self._crew.passed_seconds + self._ahead_seconds

    def connect(self) -> Any:
        """Open a connection, when it goes on."""
        self.standstill.enter()
        return open_connection(self._crew.url, self.standstill.leave)

    def stand_still(self, *, is_doubtful: bool) -> None:
        """Stand still; in SQLite outside its transactions, which would keep all others from theirs."""
        self.standstill.begin(between_transactions=self._crew.is_sqlite)
        self.is_doubtful = is_doubtful

    def await_what_was_begun(self) -> None:
        """Wait until no call goes on of those that go on now, the last that may be about what others have."""
        active = self.processor.engine.busy.active
        begun = {id(call) for call in [*active.values()]}
        until(lambda: not any(id(call) in begun for call in [*active.values()]), self.processor)
        self.is_doubtful = False

    def called(self, stream: str, events: Sequence[Any]) -> Any:
        """Be called with a span: a handler."""
        self._crew.enter(self, stream)
        try:
            self._last((stream, events))
            return self._done(stream, events)
        finally:
            self._crew.leave(self, stream)

    async def awaited(self, stream: str, events: Sequence[Any]) -> Any:
        """Be called with a span, in an event loop: a handler."""
        self._crew.enter(self, stream)
        try:
            await asyncio.to_thread(self._last, (stream, events))
            return self._done(stream, events)
        finally:
            self._crew.leave(self, stream)

    def write(self, connection: Any, spans: Sequence[Span]) -> list[Any]:
        """Be called with spans, in a transaction: a handler for `Transactional`."""
        for stream, _ in spans:
            self._crew.enter(self, stream)
            self._entered.append(stream)
        self._last(*spans)
        outcomes = [self._written(connection, *span) for span in spans]
        if self._crew.duties.chance("all", len(spans)) < 0.1:
            raise ValueError("as chance has it, all of it")
        return outcomes

    def ended(self, is_committed: bool) -> None:  # noqa: ARG002 - Of both it is over.
        """Be told that the transaction is over."""
        while self._entered:
            self._crew.leave(self, self._entered.pop())

    def _written(self, connection: Any, stream: str, events: Sequence[Any]) -> Any:
        try:
            share = self._crew.duties.share(stream, events)
        except ValueError as error:
            return error
        mark = "?" if self._crew.is_sqlite else "%s"
        rows = [(stream, event.index) for event in share.events]
        connection.cursor().executemany(f"INSERT INTO effects (stream, n) VALUES ({mark}, {mark})", rows)
        return share.outcome

    def _done(self, stream: str, events: Sequence[Any]) -> Any:
        share = self._crew.duties.share(stream, events)
        self._crew.do(stream, share.events)
        return share.outcome

    def _last(self, *spans: tuple[str, Sequence[Any]]) -> None:
        """Let a call last, and time pass for its own process meanwhile if it lasts too long."""
        duties = self._crew.duties
        if any([duties.is_slow(*span) for span in spans]):  # noqa: C419 - Each is so once.
            self._ahead_seconds += LAGS_SECONDS
            self.processor._wake()
            self._crew.await_a_lease(LATE_SECONDS)
        else:
            time.sleep(LASTS_SECONDS * duties.chance("lasting", len(spans)))


class Kept(DatabaseCheckpoints):
    """The checkpoints of a process, whose crew is told of each commit."""

    def __init__(self, process: Process) -> None:
        super().__init__(process.connect, NAME)
        self._process = process

    def commit(self, advance: Advance) -> None:
        super().commit(advance)
        with self._process.crew.looking() as connection:
            self._process.crew.check(advance, connection)

    def commit_in(self, connection: Any, advance: Advance) -> None:
        self._process.standstill.pass_by()
        super().commit_in(connection, advance)
        self._process.crew.check(advance, connection)


class Leases(DatabaseLeases):
    """The leases of a process, for whose database as much time has passed as for its crew."""

    def __init__(self, process: Process) -> None:
        super().__init__(process.connect, NAME, lease_seconds=LEASE_SECONDS)
        self._process = process

    def _change(self, change: Callable[[GroupLeases, int], GroupLeases]) -> MemberTranches:
        passed = round(self._process.crew.passed_seconds * 1_000_000)
        held = super()._change(lambda shared, now: change(shared, now + passed))
        self._process.signs += 1
        return held


def open_connection(url: str, closed: Callable[[], None] = lambda: None) -> Any:
    """Open a connection, which tells when it is *closed*."""
    if url.startswith("sqlite"):

        class File(sqlite3.Connection):
            def close(self) -> None:
                super().close()
                closed()

        connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=300, isolation_level=None, factory=File)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    class Server(psycopg.Connection[Any]):
        def close(self) -> None:
            super().close()
            closed()

    return Server.connect(url, autocommit=True)
