"""Calls a handler of several streams, one call at a time, in a thread of its own."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

from penstock.errors import CheckpointMoved, PenstockError
from penstock.processing.asking import Asking, ProcessorEnded
from penstock.processing.checkpoints.checkpoint import Advance
from penstock.processing.checkpoints.leases import DatabaseLeases
from penstock.processing.cpu import Cpu
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.stream import Call
from penstock.processing.group_calls import GroupCalls, Result
from penstock.processing.handling import Classify
from penstock.processing.progress import NotToBeKept, Progress
from penstock.processing.runners.inbox import Inbox
from penstock.processing.runners.sharing import Sharing
from penstock.processing.sharing import Held
from penstock.processing.tally import Tally
from penstock.processing.together import Together, Transactional


class GroupThread:
    """One thread that makes calls of many streams; the loop has the engine, and is asked what is to be known of it."""

    def __init__(
        self,
        handler: Together | Transactional,
        classify: Classify | None,
        desk: "AtTheDesk",
        inbox: Inbox,
        clock: Callable[[], float],
        *,
        asking: Asking,
        cpu: Cpu,
        leases: DatabaseLeases | None = None,
    ) -> None:
        self._calls: SimpleQueue[Sequence[Call] | None] = SimpleQueue()
        self._desk = desk
        self._asking = asking
        self._inbox = inbox
        self._making = GroupCalls(handler, classify, self, clock, leases)
        run = cpu.counted("handle", self._run)
        self._thread = threading.Thread(target=run, name="penstock-handler", daemon=True)

    def start(self, count: int) -> None:  # noqa: ARG002 - One call goes on at a time.
        """Begin."""
        self._thread.start()

    def replace(self, calls: Sequence[Call]) -> None:
        """Do nothing: a call that is stuck holds the next."""

    def call(self, calls: Sequence[Call]) -> None:
        """Have *calls* made, all in one."""
        self._calls.put(calls)

    def withdraw(self) -> list[Call]:
        """Take back the calls that nobody has begun with."""
        found: list[Call] = []
        with suppress(Empty):
            while calls := self._calls.get_nowait():
                found += calls
        return found

    def stop(self) -> None:
        """End, when the call has that goes on."""
        self._calls.put(None)

    def hold(self, calls: Sequence[Call], held: Held) -> None:
        """See `Desk.hold`; the loop is asked."""
        self._asking.ask(lambda: self._desk.hold(calls, held))

    def foresee(self, results: Sequence[Result]) -> Advance:
        """See `Desk.foresee`; the loop is asked."""
        return self._asking.ask(lambda: self._desk.foresee(results))

    def away(self, error: Exception) -> None:
        """See `Desk.away`; the loop is asked."""
        self._asking.ask(lambda: self._desk.away(error))

    def settle(self, results: Sequence[Result], took: float, advance: Advance | None) -> None:
        """See `Desk.settle`; the loop is asked."""
        self._asking.ask(lambda: self._desk.settle(results, took, advance))

    def give_back(self, calls: Sequence[Call]) -> None:
        """See `Desk.give_back`; the loop is asked."""
        self._asking.ask(lambda: self._desk.give_back(calls))

    def _run(self) -> None:
        while (calls := self._calls.get()) is not None:
            try:
                self._making.make(calls)
            except ProcessorEnded:  # Nothing of it is committed, and nobody is there to be told.
                return
            except BaseException as error:  # noqa: BLE001 - The loop raises it.
                self._inbox.put(self._raiser(calls, error))

    def _raiser(self, calls: Sequence[Call], error: BaseException) -> Callable[[], None]:
        def raise_it() -> None:
            self._desk.give_back(calls)  # Those that are not settled: nobody makes them any more.
            if not isinstance(error, CheckpointMoved):
                raise error
            self._desk.concede(error)

        return raise_it


class AtTheDesk:
    """The engine of a processor, as calls of many streams need it. For the thread that has the engine."""

    def __init__(
        self,
        engine: Engine,
        progress: Progress,
        clock: Callable[[], float],
        tally: Tally,
        sharing: Sharing | None = None,
    ) -> None:
        self._sharing = sharing
        self._tally = tally
        self._engine = engine
        self._progress = progress
        self._clock = clock

    def hold(self, calls: Sequence[Call], held: Held) -> None:
        """Take up what the processor has by its leases; see `Desk.hold`."""
        tranches = {tranche for call in calls for tranche in self._engine.tranches_of(call)}
        if self._sharing is not None and not self._sharing.hold(held, tranches):
            raise NotToBeKept

    def foresee(self, results: Sequence[Result]) -> Advance:
        """Return what is to be committed once *results* are."""
        return self._progress.advance_if(results)

    def away(self, error: Exception) -> None:
        """Take note that a transaction could not be begun, or was not committed."""
        self._tally.commit_failed(error.detail if isinstance(error, PenstockError) else str(error))

    def settle(self, results: Sequence[Result], took: float, advance: Advance | None) -> None:
        """Take note of *results*, and that *advance* is committed with them."""
        if advance is not None:
            self._progress.committed(advance, None)
            self._tally.committed()
        now, error = self._clock(), None
        for call, result in results:
            try:
                self._engine.settle(call, result, now, took)
            except PenstockError as raised:  # The others are settled nevertheless.
                error = error or raised
        if error is not None:
            raise error

    def concede(self, error: CheckpointMoved) -> None:
        """Give a tranche up that another has moved, or raise *error*: see `Progress.concede`."""
        self._progress.concede(error)

    def give_back(self, calls: Sequence[Call]) -> None:
        """Have those of *calls* be as if they had not been made that are not settled."""
        active = self._engine.busy.active
        for call in calls:
            if active.get(call.stream) is call:
                self._engine.give_back(call)
