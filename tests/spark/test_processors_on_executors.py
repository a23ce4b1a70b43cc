"""Processors whose handlers run on Spark's executors keep the promises that those in one process keep."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.client import Client
from penstock.core.events.partitioning import hash_partition
from penstock.errors import EventsLost, HandlerFailed, ProcessorUnhealthy
from penstock.processing import DatabaseCheckpoints, HubCheckpoints, Rules
from penstock.processing.checkpoints.checkpoint import MemoryCheckpoints
from penstock.processing.engine import Backoff, Health
from penstock.processing.engine.stream import NONE
from penstock.processing.engine.tranche import Batch
from penstock.processing.outcomes import done_to, retry
from penstock.processing.sources.feed_position import FeedPosition
from penstock.processing.sources.source import ReadRequest
from penstock.spark.processors.processor import SparkProcessor
from penstock.spark.processors.sources.feeds import SparkFeedSource
from penstock.spark.processors.sources.filtered import SparkFiltered
from penstock.spark.processors.sources.table import TableSource
from penstock.testing.live_hub import LiveHub
from tests.exhaustive import exhaustive
from tests.failing import has_code
from tests.faults.proxy import Line, Visit, cut, refusing
from tests.spark import journal
from tests.spark.events import events_in
from tests.spark.processing_driver import AwaitedCalls, Calls
from tests.spark.recording import CustomerFeed, RecordingHandler, wait_for

RULES = Rules(backoff=Backoff(first_seconds=0.05, max_seconds=0.2))
PARKS_AT_ONCE = Rules(attempts_max=1, exhausted="park")
AT_ONCE = Backoff(first_seconds=0.001, max_seconds=0.001)


def run_steps(processor: SparkProcessor) -> None:
    """Run rounds until there is nothing more to do."""
    while processor.step():
        pass


def run_to_end(spark: SparkSession, feed: CustomerFeed, **more: Any) -> None:
    """Handle all events that are there, and commit them."""
    with SparkProcessor(spark, feed.handler, feed.url, feed.name, **({"rules": RULES} | more)) as running:
        running.wait_until_caught_up(300)


def test_events_are_handled_once_in_order_and_the_group_shows_their_position(
    spark: SparkSession, feed: CustomerFeed
) -> None:
    feed.publish(range(300))
    checkpoints = HubCheckpoints(feed.url, feed.name)
    with SparkProcessor(spark, feed.handler, feed.url, feed.name, checkpoints=checkpoints, rules=RULES) as running:
        running.wait_until_caught_up(300)
        feed.publish(range(300, 600))
        running.wait_until_caught_up(300)
    assert feed.handler.numbers() == feed.expected(range(600))
    assert feed.client.consumer_group(feed.name).gap == 0
    feed.publish(range(600, 700))
    run_to_end(spark, feed, checkpoints=checkpoints)
    assert feed.handler.numbers() == feed.expected(range(700)), "it goes on where it was"


class Deferring:
    """A handler that defers one stream for long, and writes down what it is given of others."""

    def __init__(self, handler: RecordingHandler, deferred: str) -> None:
        self.handler = handler
        self.deferred = deferred

    def __call__(self, stream: str, events: Sequence[Any]) -> Any:
        return retry(1000) if stream == self.deferred else self.handler(stream, events)


@pytest.mark.exhaustive
def test_dropped_events_are_not_handled_while_another_stream_holds_the_position(
    spark: SparkSession, feed: CustomerFeed
) -> None:
    feed = feed.create("one", partitions=1, customers=3)
    dropped, file = feed.stream(1), feed.break_stream(1)
    checkpoints, handler = feed.checkpoints(), Deferring(feed.handler, feed.stream(0))

    def begin() -> SparkProcessor:
        return SparkProcessor(
            spark, handler, feed.url, feed.name, checkpoints=checkpoints, rules=PARKS_AT_ONCE, commit_interval=0.1
        )

    feed.publish(range(9))
    with begin():
        wait_for(lambda: bool(checkpoints.parked()))
        checkpoints.ask(dropped, "skip")
        wait_for(lambda: not checkpoints.parked())
    file.unlink()
    feed.publish(range(9, 12))
    for _ in range(2):
        with begin():
            wait_for(lambda: feed.handler.numbers().get(feed.stream(2), [])[-4:] == [2, 5, 8, 11])
            wait_for(lambda: feed.handler.numbers().get(dropped, [])[-1:] == [10])
    assert set(feed.handler.numbers()[dropped]) == {10}
    assert not checkpoints.parked()


class Poisoned:
    """A handler that fails at one event of a stream, and never gets behind it, as long as a file is there."""

    def __init__(self, handler: RecordingHandler, stream: str, number: int, file: Path) -> None:
        self.handler = handler
        self.stream = stream
        self.number = number
        self.file = file

    def __call__(self, stream: str, events: Sequence[Any]) -> Any:
        is_poisoned = stream == self.stream and self.file.exists()
        part = [event for event in events if not is_poisoned or event.data["n"] < self.number]
        if not part:
            raise ValueError("poison")
        self.handler(stream, part)
        return done_to(part[-1].next)


def test_poison_event_holds_its_batch_and_others_go_on_within_the_read_ahead(
    spark: SparkSession, feed: CustomerFeed
) -> None:
    """Five streams in batches of ten: a round every hundred seconds reads one, until two are ahead of the position."""
    file, now, checkpoints = feed.folder / "poison", [0.0], MemoryCheckpoints()
    file.touch()
    feed = feed.create("poison", partitions=1, customers=5)
    processor = SparkProcessor(
        spark, Poisoned(feed.handler, feed.stream(1), 16, file), feed.url, feed.name, commit_interval=0.0,
        checkpoints=checkpoints, clock=lambda: now[0],
        rules=Rules(batches_ahead=2, backoff=Backoff(first_seconds=1.0, max_seconds=60.0, jitter=0.0)),
    )  # fmt: skip

    def step() -> bool:
        now[0] += 100.0
        return processor.step()

    def position() -> int:
        (found,) = checkpoints.positions().values()
        return FeedPosition.decode(str(found)).offset

    with closing(processor):
        for start in range(0, 60, 10):
            feed.publish(range(start, start + 10))
            step()
        for attempts in (4, 5):  # The first in the round behind that which has read it.
            snapshot = processor.snapshot
            [tranche], failing = snapshot.tranches, snapshot.busy["failing"]
            assert position() == 10
            assert FeedPosition.decode(str(tranche.read)).offset == 30
            assert (tranche.pages_ahead, tranche.events_ahead) == (2, 20)
            assert [len(numbers) for _, numbers in sorted(feed.handler.numbers().items())] == [6, 3, 6, 6, 6]
            assert (failing.streams, failing.attempts, failing.oldest_seconds) == (1, attempts, (attempts - 1) * 100.0)
            [trouble] = [each for each in snapshot.longest if each.state == "failing"]
            assert (trouble.stream, trouble.index, trouble.tag, trouble.detail) == (
                feed.stream(1), 16, "ValueError", "poison",
            )  # fmt: skip
            step()
        file.unlink()
        while step():
            pass
        assert feed.handler.numbers() == feed.expected(range(60))
        assert position() == 60
        assert processor.snapshot.busy["failing"] == NONE


def test_call_that_times_out_or_ends_its_process_fails_alone(spark: SparkSession, feed: CustomerFeed) -> None:
    handler = feed.handler
    stuck, dying, calls = feed.stream(3), feed.stream(4), str(feed.folder / "calls")

    def handle(stream: str, events: Sequence[Any]) -> Any:
        if stream in (stuck, dying) and not Path(f"{calls}-{stream}").exists():
            Path(f"{calls}-{stream}").write_text(str(os.getpid()))
            if stream == dying:
                os._exit(7)
            time.sleep(600)
        return handler(stream, events)

    feed.publish(range(100))
    rules = Rules(timeout=1.0, backoff=Backoff(first_seconds=0.05, max_seconds=0.2))
    processor = SparkProcessor(spark, handle, feed.url, feed.name, rules=rules)
    processor.step()
    tags = sorted(f"{trouble.tag}: {trouble.detail}" for trouble in processor.engine.busy.failing.values())
    assert tags == [
        "died: the handler's process has ended: exit status 7",
        "timeout: the handler was not done after 1 s; its process was killed",
    ]
    with pytest.raises(ProcessLookupError):
        os.kill(int(Path(f"{calls}-{stuck}").read_text()), 0)
    with processor as running:
        running.wait_until_caught_up(300)
    assert handler.numbers() == feed.expected(range(100))


def test_call_that_ends_the_python_worker_fails_its_own_stream_alone(
    spark: SparkSession, feed: CustomerFeed, caplog: pytest.LogCaptureFixture
) -> None:
    handler, dying, checkpoints = feed.handler, feed.stream(4), feed.checkpoints()

    def handle(stream: str, events: Sequence[Any]) -> Any:
        if stream == dying:
            os._exit(7)
        return handler(stream, events)

    feed.publish(range(100))
    rules = Rules(attempts_max=2, exhausted="park", backoff=Backoff(first_seconds=0.01))
    with SparkProcessor(spark, handle, feed.url, feed.name, checkpoints=checkpoints, rules=rules) as running:
        running.wait_until_caught_up(300)
    # The round is run again, and with it what others had done in it.
    found = {stream: [*dict.fromkeys(numbers)] for stream, numbers in handler.numbers().items()}
    assert found == {stream: numbers for stream, numbers in feed.expected(range(100)).items() if stream != dying}
    [parked] = checkpoints.parked()
    assert (parked.stream, parked.tag, parked.attempts) == (dying, "died", 2)
    assert "each call in a process that may" in caplog.text


def test_unhealthy_processor_ends(spark: SparkSession, feed: CustomerFeed) -> None:
    feed.publish(range(20))
    feed.break_stream(3)
    rules = Rules(health=Health(failing_seconds_max=0.5), backoff=Backoff(first_seconds=0.01, max_seconds=0.1))
    with pytest.raises(ProcessorUnhealthy):
        run_to_end(spark, feed, rules=rules)


def test_exhausted_stream_ends_the_processor_and_the_other_work_is_kept(
    spark: SparkSession, feed: CustomerFeed
) -> None:
    feed.publish(range(100))
    checkpoints, broken = feed.checkpoints(), feed.break_stream(3)
    with pytest.raises(HandlerFailed, match=f"{feed.stream(3)}: .* has failed 1 times, the last time with ValueError"):
        run_to_end(spark, feed, checkpoints=checkpoints, rules=Rules(attempts_max=1))
    held = {tranche for tranche, end in feed.ends().items() if checkpoints.positions()[tranche] != end}
    assert len(held) == 1, "only the partition of the stream that has failed"
    broken.unlink()
    run_to_end(spark, feed, checkpoints=checkpoints)
    found, expected = feed.handler.numbers(), feed.expected(range(100))
    assert {stream: sorted(set(numbers)) for stream, numbers in found.items()} == expected
    twice = {stream for stream, numbers in found.items() if len(numbers) > len(expected[stream])}
    partitions = {feed.stream(each.data["customer"]): each.partition for each in events_in(feed.client, feed.name)}
    assert {partitions[stream] for stream in twice} <= {partitions[feed.stream(3)]}


@pytest.mark.exhaustive
def test_unhealthy_processor_ends_while_a_call_hangs_and_keeps_nothing_of_that_round(
    spark: SparkSession, feed: CustomerFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.spark.processors.processor.ENDS_TIMEOUT", 1.0)
    begun, checkpoints = feed.folder / "hangs", feed.checkpoints()
    feed.publish(range(20))
    broken, handle = feed.break_stream(3), feed.handler

    def hang(stream: str, events: Sequence[Any]) -> None:
        if stream.endswith("-1") and events[0].data["n"] > 20:
            begun.touch()
            time.sleep(3600)
        handle(stream, events)

    unwell = Rules(health=Health(failing_seconds_max=8.0), backoff=Backoff(first_seconds=0.01, max_seconds=0.1))
    processor = SparkProcessor(
        spark, hang, feed.url, feed.name, checkpoints=checkpoints, rules=unwell, commit_interval=0.0
    ).start()
    wait_for(lambda: sum(map(len, handle.numbers().values())) == 18)
    kept = checkpoints.positions()
    feed.publish(range(20, 40))
    wait_for(begun.exists)
    assert processor.wait(300), "it has ended by itself"
    with pytest.raises(ProcessorUnhealthy, match=f"{feed.stream(3)} failing at .*broken"):
        processor.stop()
    log = journal.log_of(feed.client, feed.name, "customer")
    firsts = {tranche: offsets[2] for (stream, tranche), offsets in log.offsets.items() if stream[-1] == "1"}
    now = checkpoints.positions()
    assert all(FeedPosition.decode(str(now[tranche])).offset <= first for tranche, first in firsts.items())
    assert now.keys() >= kept.keys()
    broken.unlink()
    run_to_end(spark, feed, checkpoints=checkpoints)
    assert {stream: sorted({*found}) for stream, found in handle.numbers().items()} == feed.expected(range(40))


def is_read(visit: Visit) -> bool:
    return "/events?" in visit.path


@pytest.mark.exhaustive
def test_round_in_which_the_hub_stays_away_is_run_again(
    spark: SparkSession,
    hub: LiveHub,
    feed: CustomerFeed,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("penstock.spark.processors.sources.feeds.RETRY_TIMEOUT", 0.5)
    feed.publish(range(100))
    with Line(hub.port) as line:
        line.does(*[refusing(503, "unavailable", detail="not now")] * 30, to=is_read)
        with SparkProcessor(spark, feed.handler, line.url, feed.name, rules=RULES) as running:
            running.wait_until_caught_up(300)
        assert line.left < 30
    assert feed.handler.numbers() == feed.expected(range(100))
    assert "a round has failed, and is begun anew: not available now: " in caplog.text


def test_processor_stops_without_waiting_for_a_hub_that_is_away(
    spark: SparkSession, hub: LiveHub, feed: CustomerFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.spark.processors.sources.feeds.RETRY_TIMEOUT", 3600.0)
    feed.publish(range(100))
    with Line(hub.port) as line:
        processor = SparkProcessor(spark, feed.handler, line.url, feed.name, checkpoints=feed.checkpoints()).start()
        processor.wait_until_caught_up(300)
        line.does(*[cut] * 1000, to=lambda _: True)
        wait_for(lambda: line.left < 1000)
        processor.stop()


def test_filtered_source_leaves_out_other_streams_and_positions_pass_them(
    spark: SparkSession, feed: CustomerFeed
) -> None:
    feed.publish(range(100))
    file = feed.break_stream(3)
    source = SparkFiltered(SparkFeedSource(feed.url, feed.name), streams=["-[0-4]$"], except_streams=[feed.stream(2)])
    checkpoints = feed.checkpoints()
    expected = {name: numbers for name, numbers in feed.expected(range(100)).items() if name[-1] in "0134"}
    processor = SparkProcessor(spark, feed.handler, source, checkpoints=checkpoints, rules=RULES)
    processor.step()
    assert [*processor.engine.busy.failing] == [feed.stream(3)]
    file.unlink()
    with processor as running:
        running.wait_until_caught_up(300)
    assert feed.handler.numbers() == expected, "what was read again as well"
    assert sum(int(str(at).partition(":")[2]) for at in checkpoints.positions().values()) == 100


def retry_half_of_the_parked(checkpoints: DatabaseCheckpoints) -> None:
    for parked in checkpoints.parked()[::2]:
        checkpoints.ask(parked.stream, "retry")


def message_of(error: Exception) -> str:
    """Classify a failure by its message."""
    return str(error)


SEEDS = [3, *(exhaustive(seed) for seed in range(100) if seed != 3)]
"""The one of `make test` parks what fails, adds partitions and has coroutines as handlers."""


@pytest.mark.parametrize("seed", SEEDS)
def test_streams_are_handled_in_order_without_gaps_by_a_random_handler(
    spark: SparkSession, feed: CustomerFeed, seed: int
) -> None:
    """Of ten seeds two park whatever fails, until it is asked for again, and in two calls hang and are killed.

    In four of them partitions are added, and keys move; in half handlers are coroutines, and failures are classified.
    """
    chance, checkpoints, calls = Random(seed), feed.checkpoints(), journal.Journal(feed.folder / "calls")
    parks, hangs = seed % 5 == 3, 0.03 if seed % 5 == 4 else 0.0
    grows, is_awaited = seed % 5 in (1, 3), seed % 2 == 1
    tags: set[str] = set()
    rules = Rules(
        backoff=Backoff(first_seconds=0.01, max_seconds=0.05),
        batches_ahead=3,
        events_ahead=60,
        events_per_call=chance.randrange(3, 30),
        attempts_max=1 if parks else None,
        exhausted="park" if parks else "stop",
        timeout=0.5 if hangs else None,
    )
    beginnings: list[journal.Kept] = []
    samples: list[journal.Sample] = []
    total, partitions = 0, 4

    def processor(commit_interval: float) -> SparkProcessor:
        kind = AwaitedCalls if is_awaited else Calls
        handler = kind(str(calls.folder), len(beginnings), seed, lasts_seconds=0.005, hangs=hangs)
        beginnings.append(journal.begun_with(checkpoints))
        return SparkProcessor(
            spark, handler, feed.url, feed.name, checkpoints=checkpoints, rules=rules, commit_interval=commit_interval,
            classify=message_of if is_awaited else None,
        )  # fmt: skip

    for commit_interval in (0.0, chance.choice([0.0, 5.0])):
        more = chance.randrange(50, 80)
        feed.publish(range(total, total + more))
        total += more
        running = processor(commit_interval)
        for number in range(chance.randrange(1 + grows, 4)):
            running.step()
            if grows and number == 0:
                partitions += 2
                feed.client.grow_partitions(feed.name, partitions)
                feed.publish(range(total, total + 30))
                total += 30
            for tranche in running.snapshot.tranches:
                assert tranche.pages_ahead <= rules.batches_ahead
                assert tranche.events_ahead <= rules.events_ahead
            samples.append(journal.Sample(journal.kept_in(checkpoints), calls.done()))
            retry_half_of_the_parked(checkpoints)
        tags |= running.engine.latency.keys()
        running.close()  # It is given up in the middle: what it has not committed comes again, and nothing else does.
    with processor(0.0) as running:
        running.wait_until_caught_up(300)
        while parked := checkpoints.parked():
            for each in parked:
                checkpoints.ask(each.stream, "retry")
            running.wait_until_caught_up(300)
        tags |= running.engine.latency.keys()
    samples.append(journal.Sample(journal.kept_in(checkpoints), calls.done()))
    assert tags <= {"ok", "timeout", "as chance has it" if is_awaited else "ValueError"}
    found, log = calls.calls(), journal.log_of(feed.client, feed.name, "customer")
    assert sorted(log.numbers) == [*range(total)]
    assert grows == (len(log.offsets) > 10), "else each of ten streams is in one partition"
    assert all(len(call.offsets) <= rules.events_per_call for each in found.values() for call in each)
    journal.check_order(found, log, beginnings, is_rerun=False)
    journal.check_checkpoints(samples, log)


@pytest.mark.exhaustive
def test_partitions_added_while_it_runs_are_read_and_a_failing_stream_moves_in_order(
    spark: SparkSession, feed: CustomerFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.processing.sources.feed.LOOK_INTERVAL", 0.5)
    moving = next(key for key in range(10) if hash_partition((f"{key}",), 4) != hash_partition((f"{key}",), 8))
    broken, checkpoints = feed.stream(moving), HubCheckpoints(feed.url, feed.name)
    with SparkProcessor(spark, feed.handler, feed.url, feed.name, checkpoints=checkpoints, rules=RULES) as running:
        feed.publish(range(100))
        running.wait_until_caught_up(300)
        file = feed.break_stream(moving)
        feed.publish(range(100, 200))
        wait_for(lambda: broken in running.engine.busy.failing)
        feed.client.grow_partitions(feed.name, 8)
        feed.publish(range(200, 400))
        expected = feed.expected(range(400)) | {broken: feed.expected(range(100))[broken]}
        wait_for(lambda: in_order(feed.handler.numbers()) == expected)
        file.unlink()
        running.wait_until_caught_up(300)
        assert len(running.engine.positions()) == 8
    found = feed.handler.numbers()
    # Across the moment in which keys move there is no order but of what waits, and nothing is lost or comes twice.
    assert in_order(found) == feed.expected(range(400))
    assert found[broken] == feed.expected(range(400))[broken]
    assert feed.client.consumer_group(feed.name).gap == 0


def in_order(numbers: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Return the numbers of each stream, sorted."""
    return {stream: sorted(found) for stream, found in numbers.items()}


def test_feed_with_moved_keys_is_handled_in_order_from_its_beginning(spark: SparkSession, feed: CustomerFeed) -> None:
    checkpoints, feed = MemoryCheckpoints(), feed.create("grown", partitions=2)
    feed.publish(range(100))
    feed.client.grow_partitions(feed.name, 4)
    feed.publish(range(100, 150))
    moved = [key for key in range(10) if hash_partition((f"{key}",), 2) != hash_partition((f"{key}",), 4)]
    assert len(moved) > 2, "their events lie in two partitions each"
    run_to_end(spark, feed, checkpoints=checkpoints)
    assert feed.handler.numbers() == feed.expected(range(150))
    assert checkpoints.positions() == feed.ends()


@pytest.mark.parametrize("parks", [exhaustive(False), True], ids=["no room for more", "parked and retried"])
def test_retried_events_are_not_taken_from_a_feed_created_again(
    spark: SparkSession, hub: LiveHub, client: Client, tmp_path: Path, *, parks: bool
) -> None:
    """A processor that holds events of the old feed, to be tried again, ends."""
    feed = CustomerFeed(
        hub.url, client, f"order.again-{time.monotonic_ns()}", RecordingHandler(tmp_path / "h"), tmp_path
    )
    handed, is_mended, handler = tmp_path / "handed", tmp_path / "mended", feed.handler
    what_fails: Any = {"attempts_max": 2, "exhausted": "park"} if parks else {"events_ahead": 5, "batches_ahead": 1}

    def handle(stream: str, events: Sequence[Any]) -> None:
        with handed.open("a") as file:
            file.writelines(f"{event.data['n']}\n" for event in events)
        if not is_mended.exists():
            raise ValueError("not yet")
        handler(stream, events)

    def publish(numbers: range) -> None:
        client.create_event_type(feed.name, partition_count=1)
        client.publish(feed.name, [{"n": n} for n in numbers])

    publish(range(5))
    checkpoints = MemoryCheckpoints()
    processor = SparkProcessor(
        spark, handle, hub.url, feed.name, checkpoints=checkpoints, rules=Rules(backoff=AT_ONCE, **what_fails),
        commit_interval=0.0,
    )  # fmt: skip
    while not handed.exists() or len(handed.read_text().splitlines()) < (15 if parks else 5):
        processor.step()
        for each in checkpoints.parked():
            checkpoints.ask(each.stream, "retry")
    before = checkpoints.positions()

    client.delete_event_type(feed.name)
    publish(range(5, 10))
    is_mended.touch()
    with pytest.raises(EventsLost, check=has_code("feed-created-again"), match="in epoch 2, not 1"):
        processor.step()
    processor.close()

    assert set(handed.read_text().splitlines()) == {f"{n}" for n in range(5)}
    assert checkpoints.positions() == before


class Forgetting(TableSource):
    """A table that cannot be read again, after a while."""

    is_gone = False

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        """Return what a tranche has from an earlier index on, unless it is gone."""
        if self.is_gone:
            raise EventsLost(event_type="order", partition=0, lost=1, reason="retention has removed them")
        return super().reread(tranche, want)


def test_parked_stream_without_its_events_fails_again_and_others_go_on(spark: SparkSession, tmp_path: Path) -> None:
    checkpoints, names = DatabaseCheckpoints(f"sqlite:///{tmp_path}/kept.db", "mailer"), ["P"]

    def frame(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame([*enumerate(names)], "place bigint, name string")

    def fail(stream: str, _: Sequence[Any]) -> None:
        if stream == "P":
            raise ValueError("no")

    source = Forgetting(frame, index="place", stream="name")
    running = SparkProcessor(spark, fail, source, checkpoints=checkpoints, rules=PARKS_AT_ONCE, commit_interval=0)
    run_steps(running)
    [parked] = checkpoints.parked()
    source.is_gone = True
    checkpoints.ask(parked.stream, "retry")
    names.append("R")
    run_steps(running)
    running.close()

    [kept] = checkpoints.parked_at()
    assert (kept.parked.attempts, kept.parked.tag, kept.request) == (2, "gone", None)
    assert "retention has removed them" in kept.parked.detail
    assert checkpoints.positions() == {"0": 2}, "others go on"
