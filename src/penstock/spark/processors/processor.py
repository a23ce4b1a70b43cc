"""The driver's loop of a processor on Spark.

    survey, wants ──▶ plan ──▶ Spark: read ▶ shuffle by stream ▶ call ──▶ results ──▶ engine ──▶ commit

A round is one action of Spark's: nothing is read or called twice for it. Streams that are not done are carried over by
their offsets, and read again when they are due; the positions kept are our own, and Spark keeps nothing.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from random import Random
from typing import Any, Final
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.core.log.start import Start
from penstock.errors import BadParameter, PenstockError, ProcessorUnhealthy, Unavailable
from penstock.processing.checkpoints.checkpoint import Checkpoints
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.rules import Rules
from penstock.processing.engine.stream import Call
from penstock.processing.handlers import Classify, Handler, StreamCaller
from penstock.processing.parameters import check_count, check_function, check_seconds
from penstock.processing.progress import Progress
from penstock.processing.runners.background import HOPELESS, commit_remaining, note_failure
from penstock.processing.runners.observer import ProcessorObserver, choose_name
from penstock.processing.runners.processor import Processor, choose_checkpoints
from penstock.spark.failed_tasks import find_task_error
from penstock.spark.processors.calling import CallAll
from penstock.spark.processors.results import RESULTS_SQL, Result, results_of
from penstock.spark.processors.rounds import ALL, Planned, ResultIntake
from penstock.spark.processors.session import check_sendable, check_session, cores_of
from penstock.spark.processors.sources.feeds import spark_source
from penstock.spark.processors.sources.source import SparkSource
from penstock.wire.http import is_transient

__all__ = ["SparkProcessor"]


@contextmanager
def cancellable(spark: SparkSession) -> Iterator[Callable[[], object]]:
    """Yield a function that cancels this thread's Spark jobs of the block; any thread may call it, repeatedly.

    The thread that waits for Spark gets an error. Calls under way end with their processes, a few seconds later.
    """
    tag = f"penstock-{uuid4().hex}"
    add, remove, cancel = _find_tag_functions(spark)
    add(tag)
    try:
        yield lambda: cancel(tag)
    finally:
        remove(tag)


def _find_tag_functions(spark: SparkSession) -> tuple[Callable[[str], Any], Callable[[str], Any], Callable[[str], Any]]:
    try:
        context = spark.sparkContext
    except Exception:  # noqa: BLE001 - PySpark says in several ways that a session has no context.
        return spark.addTag, spark.removeTag, spark.interruptTag
    # A session's own tags are not those of the jobs that a data frame is collected by.
    return context.addJobTag, context.removeJobTag, context.cancelJobsWithTag


ENDS_TIMEOUT: Final = 30.0
"""Seconds that a round still has: as many as calls in one process have when that ends."""
_log: Final = logging.getLogger("penstock.processing")


class Ending:
    """Looks during a round whether the processor is to end. The round has a while to end by itself, and is cancelled.

    Args:
        check: Raises what is to end the processor.
        cancel: Cancels the round. It is called again each time, since there may be nothing to cancel yet.
        clock: Seconds that never go back.
    """

    def __init__(
        self, check: Callable[[float], None], cancel: Callable[[], object], clock: Callable[[], float]
    ) -> None:
        self._check = check
        self._cancel = cancel
        self._clock = clock
        self._found: ProcessorUnhealthy | None = None
        self._until = 0.0
        self.error: ProcessorUnhealthy | None = None
        """The reason why the round was cancelled."""

    def look(self) -> None:
        """See whether it is to end."""
        now = self._clock()
        if self._found is None:
            self._find(now)
        elif now >= self._until:
            self.error = self._found
            try:
                self._cancel()
            except Exception:  # noqa: BLE001 - It is tried again, and who waits for Spark is told what is wrong with it.
                _log.warning("a round could not be cancelled", exc_info=True)

    def _find(self, now: float) -> None:
        try:
            self._check(now)
        except ProcessorUnhealthy as error:
            self._found, self._until = error, now + ENDS_TIMEOUT


@contextmanager
def looking(look: Callable[[], None], interval: float) -> Iterator[None]:
    """Call *look* every *interval* seconds while the block runs. The block must not change what *look* examines."""
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(interval):
            look()

    thread = threading.Thread(target=run, name="penstock-look", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


POLL_INTERVAL: Final = 0.5
"""How often it is looked for new events, where there is nothing to do."""
LOOK_INTERVAL: Final = 0.5
"""The seconds between checks while it waits for Spark, or for the hub."""
CRASHED: Final = "Python worker exited unexpectedly"
"""Spark's message after a Python process of an executor has died, for any reason."""
ALONE_SECONDS: Final = 86_400.0
"""Seconds that a call in a process of its own may last, if no rule limits it."""


class SparkProcessor(Processor):
    """A processor whose handler runs on Spark's executors, from `start` to `stop`, or as long as a `with` block.

    Handlers, outcomes, rules, checkpoints and promises are those of `LocalProcessor`. A stream is handled by one task
    at a time, in order; tasks run in parallel, and the next round begins when all are done. A task that Spark repeats,
    since its executor has died, calls its handlers again. Executors need Penstock with its dependencies, and the
    handler's imports.

    If `rules.health` ends the processor during a round, the round has 30 s to finish. Then it is cancelled with its
    calls under way, and all its calls are repeated later.

    Args:
        spark: The session.
        handler: See `Handler`. It is sent to the executors as Spark sends functions.
        source: The hub's address, as executors reach it; or a source that Spark reads, such as `TableSource`, which no
            other processor may use.
        event_types: The feeds to read from a hub, at least one.
        start: The start in a hub's feeds, as for `FeedSource`.
        fail_on_loss: For a hub, as for `FeedSource`.
        checkpoints: Where it stores its progress; by default in memory.
        rules: Its rules. With `timeout`, it makes calls in child processes, which are killed after that time. It does
            so too once a call has ended its worker process, so that only that stream fails. Spark's number of cores
            replaces `concurrency`.
        classify: Names failures.
        partitions: The number of tasks to which streams are shuffled; by default Spark's number of cores.
        commit_interval: The longest time between commits; it commits when it stops, too.
        stats_interval: The interval of statistics in the log; None: never.
        name: Its name in logs, views and metrics; by default the name of its checkpoints.
        clock: A monotonic clock, in seconds.

    Raises:
        BadParameter: Spark's speculation is on: it would call handlers of one stream twice at once. Or the handler has
            the wrong signature or cannot be pickled; the session, the source or the checkpoints have the wrong type, or
            options of feeds are given with another source.
        PenstockError: (`stop`, `wait_until_caught_up`) the error that ended it.
    """

    def __init__(
        self,
        spark: SparkSession,
        handler: Handler,
        source: str | SparkSource,
        *event_types: str,
        start: Start = "earliest",
        fail_on_loss: bool = True,
        checkpoints: Checkpoints | None = None,
        rules: Rules | None = None,
        classify: Classify | None = None,
        partitions: int | None = None,
        commit_interval: float = 5.0,
        stats_interval: float | None = 60.0,
        name: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_session(spark)
        check_function("clock", clock)
        if spark.conf.get("spark.speculation", "false") == "true":
            allowed = "false: a task that runs twice calls the handler of a stream twice at once"
            raise BadParameter(parameter="spark.speculation", value="true", allowed=allowed)
        StreamCaller(handler, classify)  # Before anything runs; executors make their own.
        check_sendable("handler", handler)
        check_sendable("classify", classify)
        checkpoints, _ = choose_checkpoints(handler, checkpoints, source)
        self.engine = Engine(Rules() if rules is None else rules, Random(), is_dense=False)  # noqa: S311 - Of delays.
        self._spark = spark
        self._handler = handler
        self._classify = classify
        self._source = spark_source(source, event_types, start=start, fail_on_loss=fail_on_loss)
        self._source.open(spark)
        self._woken = threading.Event()
        progress = Progress(self.engine, self._source, checkpoints)
        super().__init__(
            progress,
            self._woken.set,
            ProcessorObserver(choose_name(name, checkpoints), self.engine, progress.behind, stats_interval, clock()),
        )
        self._tally = self._observer.tally
        passes = self._source.passes_over_loss
        self._intake = ResultIntake(self.engine, self._tally, clock, passes_over_loss=passes)
        if partitions is not None:
            check_count("partitions", partitions)
        self._partitions = partitions or cores_of(spark)
        check_seconds("commit_interval", commit_interval, zero=True)
        self._commit_interval = commit_interval
        self._clock = clock
        self._committed_at = float("-inf")
        self._silent: ProcessorUnhealthy | None = None
        """Fail because the source has not answered for longer than it may: it is closed, nothing waits for it."""
        self._is_careful = False
        """True if each call is made in a process that may die: one has, and it is not known of which stream."""

    def close(self) -> None:
        """Let go of the source, where rounds were carried out by `step` alone."""
        self._source.close()

    def stop(self) -> None:
        """Wait for the round under way, commit its results, and end.

        If the source is unavailable, only the tasks of that round still wait for it, for a minute per attempt of a
        task.
        """
        self._stopping.set()
        self._source.close()
        super().stop()

    def step(self) -> bool:
        """Run one round; return whether there was work.

        Raises:
            Unavailable: the source was unavailable for too long. The next round repeats the calls of this one.
            PenstockError: an error that ends the processor.
        """
        try:
            return self._round()
        except PenstockError:
            if self._silent is not None:
                raise self._silent from None
            raise
        finally:
            self._look()

    def _round(self) -> bool:
        now = self._clock()
        with self._waiting():
            found = self._progress.find_new_tranches()
        self._progress.open(found)
        for replay in self._progress.plan_replays():
            with self._waiting():
                page = self._progress.reread(replay)
            self.engine.replay_all(replay.parked, page, now)
        again = self.engine.take(ALL, now)
        try:
            planned = self._plan(again)
            has_work = bool(planned.new or planned.again)
            results = self._carry_out_carefully(planned) if has_work else []
        except BaseException:
            for call in again:
                self.engine.give_back(call)
            raise
        if has_work:
            self._intake.take_in(planned, results, again)
        self.engine.check_health(self._clock())
        if self._silent is not None:
            raise self._silent
        return self._commit(now, is_idle=not has_work) or has_work

    def _release(self) -> None:
        self._source.close()

    def _run_once(self) -> None:
        self._requests.serve()
        try:
            is_busy = self.step()
        except PenstockError as error:
            if not is_transient(error):
                raise
            if self._stopping.is_set():  # Its source was closed.
                return
            _log.warning("a round has failed, and is begun anew: %s", error.detail)
            self._tally.source.note_failed_read()
            self.engine.check_health(self._clock())
            self._observer.check_source(self._clock())
            is_busy = False
        if not is_busy:
            due = self.engine.due
            self._woken.wait(POLL_INTERVAL if due is None else min(POLL_INTERVAL, max(0.0, due - self._clock())))
        self._woken.clear()

    def _finish(self) -> None:
        try:
            if not isinstance(self._error, HOPELESS):
                commit_remaining(self._progress, self._tally, self._clock)
        except BaseException as error:
            self._error = self._error or error
            raise
        finally:
            self._source.close()
            self._observer.end(self._clock(), self._error)

    def _look(self) -> None:
        self._observer.observe(self._clock())

    def _waiting(self, *looks: Callable[[], None]) -> AbstractContextManager[None]:
        """Call *looks* periodically during the block, which must not use the engine."""

        def look() -> None:
            for each in (self._look, self._look_at_source, *looks):
                each()

        return looking(look, LOOK_INTERVAL)

    def _look_at_source(self) -> None:
        """Close the source if it has not answered for longer than the limit; this wakes threads that wait for it."""
        if self._silent is None:
            try:
                self._observer.check_source(self._clock())
            except ProcessorUnhealthy as error:
                self._silent = error
                self._source.close()

    def _plan(self, again: Sequence[Call]) -> Planned:
        """Plan a round."""
        with self._waiting():
            look = self._source.look()
        self._tally.source.note_read(self._clock(), is_answer=True)
        wants, timeout = self._progress.plan_reads(), self._timeout
        return Planned.of(self.engine, look, wants, again, timeout=timeout, partitions=self._partitions)

    @property
    def _timeout(self) -> float | None:
        return self.engine.rules.timeout or (ALONE_SECONDS if self._is_careful else None)

    def _carry_out_carefully(self, planned: Planned) -> list[Result]:
        """Carry a round out; once more in processes of their own where a call has ended the process it was made in."""
        try:
            return self._carry_out(planned)
        except Exception as error:  # Py4J's, or over Spark Connect PySpark's.
            if self._timeout is not None or CRASHED not in str(error):
                raise
        self._is_careful = True
        _log.warning("a process that calls handlers has died; the round is begun anew, each call in a process that may")
        return self._carry_out(planned._replace(plan=replace(planned.plan, timeout=self._timeout)))

    def _carry_out(self, planned: Planned) -> list[Result]:
        plan = planned.plan
        events, tasks = planned.look.reading(plan, [*planned.new.values()], planned.again, None)
        calls = CallAll(plan, self._handler, self._classify)
        shuffled = events.repartition(min(self._partitions, max(1, tasks * 4)), "stream")
        self._tally.begin_round(self._clock())
        with cancellable(self._spark) as cancel:
            ending = Ending(self.engine.check_health, cancel, self._clock)
            try:
                with self._waiting(ending.look):
                    return results_of(shuffled.mapInArrow(calls, RESULTS_SQL).toArrow())
            except Exception as error:
                if ending.error is not None:
                    raise ending.error from error
                told = find_task_error(str(error)) if isinstance(error, PySparkException) else None
                if told is None or told.kind != Unavailable.__name__:
                    raise
                raise Unavailable(reason=told.detail) from error
            finally:
                self._tally.end_round(self._clock())

    def _commit(self, now: float, *, is_idle: bool) -> bool:
        if not (
            is_idle
            or self._catch_up.count
            or self._progress.has_parked
            or now - self._committed_at >= self._commit_interval
        ):
            return False
        self._committed_at = now
        progress, advance = self._progress, self._progress.find_advance()
        if not (advance or progress.has_parked):
            return False
        try:
            with self._waiting():
                requests = progress.write(advance)
        except PenstockError as error:
            note_failure(error, self._tally)
            return False
        self._tally.end_commit()
        return progress.confirm(advance, requests) or bool(advance)
