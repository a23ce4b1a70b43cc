"""Processors whose handlers run on Spark's executors keep the promises that those in one process keep."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.client import Client
from penstock.core.partitioning import hash_partition
from penstock.errors import ProcessorUnhealthy, StreamExhausted
from penstock.processing import Backoff, DatabaseCheckpoints, Health, HubCheckpoints, Rules, retry
from penstock.processing.checkpoints.memory import MemoryCheckpoints
from penstock.processing.engine.busy import NONE
from penstock.processing.engine.outcome import done_to, skip_to
from penstock.processing.sources.feed_position import FeedPosition
from penstock.spark.processors.processor import SparkProcessor
from penstock.spark.processors.sources.feeds import SparkFeedSource
from penstock.spark.processors.sources.filtered import SparkFiltered
from penstock.testing.live_hub import LiveHub
from tests.exhaustive import exhaustive
from tests.faults.proxy import Line, Visit, cut, refusing
from tests.spark import journal
from tests.spark.processing_driver import AwaitedCalls, Calls

RULES = Rules(backoff=Backoff(first=0.05, most=0.2))


class Journal:
    """A handler that writes down what it is given, a file for each stream: it is called in other processes.

    It fails while a file named after the stream and `.broken` is there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __call__(self, stream: str, events: Sequence[Any]) -> Any:
        path = Path(self.folder) / stream
        if path.with_name(f"{stream}.broken").exists():
            raise ValueError("broken")
        lines = [json.dumps([event.index, event.data["n"]]) for event in events]
        with path.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))
        return None

    def numbers(self) -> dict[str, list[int]]:
        """What was handled, by stream, in its order."""
        files = [path for path in Path(self.folder).iterdir() if path.suffix != ".broken"]
        return {path.name: [json.loads(line)[1] for line in path.read_text().splitlines()] for path in files}


@dataclass
class Case:
    """A feed, and who writes down what is handled of it."""

    url: str
    client: Client
    feed: str
    journal: Journal
    folder: Path

    def publish(self, numbers: range) -> None:
        """Publish numbers for ten customers."""
        self.client.publish(self.feed, [{"customer": f"{number % 10}", "n": number} for number in numbers])

    def wanted(self, numbers: range) -> dict[str, list[int]]:
        """What is to be handled, by stream."""
        return {f"{self.feed}-{key}": [n for n in numbers if n % 10 == key] for key in range(10)}

    def checkpoints(self) -> DatabaseCheckpoints:
        """Those in a file of its own."""
        return DatabaseCheckpoints(f"sqlite:///{self.folder}/checkpoints.db", self.feed)

    def breaks(self, key: int) -> Path:
        """Have a stream fail for as long as the file is there that is returned."""
        path = Path(self.journal.folder) / f"{self.feed}-{key}.broken"
        path.touch()
        return path


@pytest.fixture
def case(hub: LiveHub, client: Client, tmp_path: Path) -> Case:
    name = f"order.taken-{time.monotonic_ns()}"
    client.create_event_type(name, partition_count=4, partition_strategy="hash", partition_key_fields=["customer"])
    (tmp_path / "journal").mkdir()
    return Case(hub.url, client, name, Journal(tmp_path / "journal"), tmp_path)


def until(check: Callable[[], bool], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "that has not come"
        time.sleep(0.1)


def test_every_event_is_handled_once_in_order_and_the_group_shows_it(spark: SparkSession, case: Case) -> None:
    case.publish(range(500))
    checkpoints = HubCheckpoints(case.url, case.feed)
    with SparkProcessor(spark, case.journal, case.url, case.feed, checkpoints=checkpoints, rules=RULES) as running:
        running.wait_until_caught_up(300)
        case.publish(range(500, 900))
        running.wait_until_caught_up(300)
    assert case.journal.numbers() == case.wanted(range(900))
    assert case.client.consumer_group(case.feed).gap == 0
    case.publish(range(900, 1000))
    with SparkProcessor(spark, case.journal, case.url, case.feed, checkpoints=checkpoints, rules=RULES) as running:
        running.wait_until_caught_up(300)
    assert case.journal.numbers() == case.wanted(range(1000)), "it goes on where it was"


def test_a_failing_stream_holds_its_position_and_no_other_and_is_tried_without_new_events(
    spark: SparkSession, case: Case
) -> None:
    broken, file = f"{case.feed}-3", case.breaks(3)
    case.publish(range(200))
    checkpoints = case.checkpoints()
    with SparkProcessor(
        spark, case.journal, case.url, case.feed, checkpoints=checkpoints, rules=RULES, commit_s=0.1
    ) as running:
        others = {name: numbers for name, numbers in case.wanted(range(200)).items() if name != broken}
        until(lambda: case.journal.numbers() == others)
        until(lambda: running.engine.busy.figures(time.monotonic())["failing"].attempts > 2)
        assert running.engine.busy.failing[broken].tag == "ValueError"
        file.unlink()
        running.wait_until_caught_up(300)
    assert case.journal.numbers() == case.wanted(range(200))


def test_a_parked_stream_is_read_again_when_somebody_asks_for_it(spark: SparkSession, case: Case) -> None:
    broken, file = f"{case.feed}-3", case.breaks(3)
    case.publish(range(200))
    checkpoints = case.checkpoints()
    rules = Rules(attempts_max=2, exhausted="park", backoff=Backoff(first=0.01))
    with SparkProcessor(spark, case.journal, case.url, case.feed, checkpoints=checkpoints, rules=rules) as running:
        running.wait_until_caught_up(300)
        case.publish(range(200, 250))
        running.wait_until_caught_up(300)
        [parked] = checkpoints.parked()
        assert (parked.stream, parked.events, parked.attempts) == (broken, 25, 2)
        file.unlink()
        checkpoints.ask(broken, "retry")
        until(lambda: not checkpoints.parked())
        case.publish(range(250, 300))
        running.wait_until_caught_up(300)
    assert case.journal.numbers() == case.wanted(range(300))


class Deferring:
    """A handler that defers one stream for long, and writes down what it is given of others."""

    def __init__(self, journal: Journal, deferred: str) -> None:
        self.journal = journal
        self.deferred = deferred

    def __call__(self, stream: str, events: Sequence[Any]) -> Any:
        return retry(1000) if stream == self.deferred else self.journal(stream, events)


def test_what_was_dropped_is_never_handled_though_its_position_is_held(spark: SparkSession, case: Case) -> None:
    name = f"{case.feed}.one"
    case.client.create_event_type(name, partition_strategy="hash", partition_key_fields=["customer"])

    def publish(numbers: range) -> None:
        case.client.publish(name, [{"customer": f"{number % 3}", "n": number} for number in numbers])

    deferred, dropped, file = f"{name}-0", f"{name}-1", Path(case.journal.folder) / f"{name}-1.broken"
    rules = Rules(attempts_max=1, exhausted="park")
    checkpoints, handler = case.checkpoints(), Deferring(case.journal, deferred)

    def begun() -> SparkProcessor:
        return SparkProcessor(spark, handler, case.url, name, checkpoints=checkpoints, rules=rules, commit_s=0.1)

    file.touch()
    publish(range(9))
    with begun():
        until(lambda: bool(checkpoints.parked()))
        checkpoints.ask(dropped, "drop")
        until(lambda: not checkpoints.parked())
    file.unlink()
    publish(range(9, 12))
    for _ in range(2):
        with begun():
            until(lambda: case.journal.numbers().get(f"{name}-2", [])[-4:] == [2, 5, 8, 11])
            until(lambda: case.journal.numbers().get(dropped, [])[-1:] == [10])
    assert set(case.journal.numbers()[dropped]) == {10}
    assert not checkpoints.parked()


class Poisoned:
    """A handler that fails at one event of a stream, and never gets behind it, as long as a file is there."""

    def __init__(self, journal: Journal, stream: str, number: int, file: Path) -> None:
        self.journal = journal
        self.stream = stream
        self.number = number
        self.file = file

    def __call__(self, stream: str, events: Sequence[Any]) -> Any:
        is_poisoned = stream == self.stream and self.file.exists()
        part = [event for event in events if not is_poisoned or event.data["n"] < self.number]
        if not part:
            raise ValueError("poison")
        self.journal(stream, part)
        return done_to(part[-1].next)


class Poison:
    """Five streams of one partition in batches of ten, one of which is poisoned from its eighth event on; and a clock.

    A round every hundred seconds reads ten events more.
    """

    def __init__(self, spark: SparkSession, case: Case, **rules: Any) -> None:
        self.case = case
        self.feed = f"{case.feed}-poison"
        self.stream = f"{self.feed}-1"
        self.file = case.folder / "poison"
        self.file.touch()
        case.client.create_event_type(
            self.feed, partition_count=1, partition_strategy="hash", partition_key_fields=["customer"]
        )
        self.now = 0.0
        self.checkpoints = MemoryCheckpoints()
        self.processor = SparkProcessor(
            spark, Poisoned(case.journal, self.stream, 36, self.file), case.url, self.feed, commit_s=0.0,
            checkpoints=self.checkpoints, clock=lambda: self.now,
            rules=Rules(batches_ahead=4, backoff=Backoff(first=1.0, most=60.0, jitter=0.0), **rules),
        )  # fmt: skip

    def close(self) -> None:
        self.processor.close()

    def step(self) -> bool:
        self.now += 100.0
        return self.processor.step()

    def publish_and_step(self, numbers: range) -> None:
        for start in numbers[::10]:
            self.case.client.publish(self.feed, [{"customer": f"{n % 5}", "n": n} for n in range(start, start + 10)])
            self.step()

    def position(self) -> int:
        (position,) = self.checkpoints.positions().values()
        return FeedPosition.decode(str(position)).offset

    def counts(self) -> list[int]:
        """How many events of each stream are handled."""
        return [len(numbers) for _, numbers in sorted(self.case.journal.numbers().items())]

    def check_all(self, total: int) -> None:
        wanted = {f"{self.feed}-{key}": [n for n in range(total) if n % 5 == key] for key in range(5)}
        assert self.case.journal.numbers() == wanted
        assert self.position() == total
        assert self.processor.snapshot.busy["failing"] == NONE


def test_a_poison_event_holds_its_batch_and_others_go_on_as_far_as_may_be_read_ahead(
    spark: SparkSession, case: Case
) -> None:
    with closing(Poison(spark, case)) as poison:
        poison.publish_and_step(range(100))
        for attempts in (6, 7):  # The first in the round behind that which has read it.
            snapshot = poison.processor.snapshot
            [tranche], failing = snapshot.tranches, snapshot.busy["failing"]
            assert poison.position() == 30
            assert FeedPosition.decode(str(tranche.read)).offset == 70
            assert (tranche.pages_ahead, tranche.events_ahead) == (4, 40)
            assert poison.counts() == [14, 7, 14, 14, 14]
            assert (failing.streams, failing.attempts, failing.oldest_s) == (1, attempts, (attempts - 1) * 100.0)
            [told] = [each for each in snapshot.longest if each.state == "failing"]
            assert (told.stream, told.index, told.tag, told.detail) == (poison.stream, 36, "ValueError", "poison")
            poison.step()
        poison.file.unlink()
        while poison.step():
            pass
        poison.check_all(100)


def test_a_poison_event_that_is_parked_holds_nothing_and_is_tried_again(spark: SparkSession, case: Case) -> None:
    with closing(Poison(spark, case, attempts_max=1, exhausted="park")) as poison:
        poison.publish_and_step(range(100))
        while poison.step():
            pass
        assert poison.position() == 100
        assert poison.counts() == [20, 7, 20, 20, 20]
        [parked] = poison.checkpoints.parked()
        assert (parked.stream, parked.index, parked.next, parked.events) == (poison.stream, 36, 97, 13)
        assert (parked.attempts, parked.tag, parked.detail) == (1, "ValueError", "poison")
        assert poison.processor.snapshot.busy["failing"] == NONE
        for attempts in (2, 0):
            poison.checkpoints.ask(poison.stream, "retry")
            while poison.step():
                pass
            assert [each.attempts for each in poison.checkpoints.parked()] == [attempts][: attempts // 2]
            poison.file.unlink(missing_ok=True)
        poison.publish_and_step(range(100, 110))
        while poison.step():
            pass
        poison.check_all(110)


def test_a_call_that_lasts_too_long_is_killed_and_no_other_is(spark: SparkSession, case: Case) -> None:
    journal = case.journal
    stuck, dying, calls = f"{case.feed}-3", f"{case.feed}-4", str(case.folder / "calls")

    def handle(stream: str, events: Sequence[Any]) -> Any:
        if stream in (stuck, dying) and not Path(f"{calls}-{stream}").exists():
            Path(f"{calls}-{stream}").write_text(str(os.getpid()))
            if stream == dying:
                os._exit(7)
            time.sleep(600)
        return journal(stream, events)

    case.publish(range(100))
    rules = Rules(timeout_s=1.0, backoff=Backoff(first=0.05, most=0.2))
    tags: list[str] = []
    processor = SparkProcessor(spark, handle, case.url, case.feed, rules=rules)
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
    assert case.journal.numbers() == case.wanted(range(100))


def test_a_call_that_ends_its_process_fails_its_own_stream_alone(
    spark: SparkSession, case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    journal, dying, checkpoints = case.journal, f"{case.feed}-4", case.checkpoints()

    def handle(stream: str, events: Sequence[Any]) -> Any:
        if stream == dying:
            os._exit(7)
        return journal(stream, events)

    case.publish(range(100))
    rules = Rules(attempts_max=2, exhausted="park", backoff=Backoff(first=0.01))
    with SparkProcessor(spark, handle, case.url, case.feed, checkpoints=checkpoints, rules=rules) as running:
        running.wait_until_caught_up(300)
    wanted = case.wanted(range(100))
    # What others had done in the round that was begun anew, they have done again.
    found = {stream: [*dict.fromkeys(numbers)] for stream, numbers in journal.numbers().items()}
    assert found == {stream: numbers for stream, numbers in wanted.items() if stream != dying}
    [parked] = checkpoints.parked()
    assert (parked.stream, parked.tag, parked.attempts) == (dying, "died", 2)
    assert "each call in a process that may" in caplog.text


def test_what_is_to_end_a_processor_ends_it(spark: SparkSession, case: Case) -> None:
    case.publish(range(20))

    def fail(stream: str, events: Sequence[Any]) -> None:
        raise ValueError("broken")

    twice = Rules(attempts_max=2, backoff=Backoff(first=0.01))
    with (
        pytest.raises(StreamExhausted, match="has failed 2 times, the last time with ValueError: broken"),
        SparkProcessor(spark, fail, case.url, case.feed, rules=twice) as running,
    ):
        running.wait_until_caught_up(300)
    with pytest.raises(ProcessorUnhealthy), SparkProcessor(
        spark, fail, case.url, case.feed,
        rules=Rules(health=Health(failing_s_max=0.5), backoff=Backoff(first=0.01, most=0.1)),
    ) as running:  # fmt: skip
        running.wait_until_caught_up(300)


def test_a_processor_that_is_not_well_ends_though_a_call_hangs_and_nothing_of_that_round_is_kept(
    spark: SparkSession, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.spark.processors.ending.ENDS_S_MAX", 1.0)
    begun, checkpoints = case.folder / "hangs", case.checkpoints()
    case.publish(range(20))
    case.breaks(3)
    handle = case.journal

    def hang(stream: str, events: Sequence[Any]) -> None:
        if stream.endswith("-1") and events[0].data["n"] > 20:
            begun.touch()
            time.sleep(3600)
        handle(stream, events)

    unwell = Rules(health=Health(failing_s_max=8.0), backoff=Backoff(first=0.01, most=0.1))
    processor = SparkProcessor(
        spark, hang, case.url, case.feed, checkpoints=checkpoints, rules=unwell, commit_s=0.0
    ).start()
    until(lambda: sum(map(len, case.journal.numbers().values())) == 18)
    kept = checkpoints.positions()
    case.publish(range(20, 40))
    until(begun.exists)
    assert processor.wait(300), "it has ended by itself"
    with pytest.raises(ProcessorUnhealthy, match=f"{case.feed}-3 failing at .*broken"):
        processor.stop()
    log = journal.log_of(case.client, case.feed, "customer")
    firsts = {log.partitions[stream]: offsets[2] for stream, offsets in log.offsets.items() if stream[-1] == "1"}
    now = checkpoints.positions()
    assert all(FeedPosition.decode(str(now[tranche])).offset <= first for tranche, first in firsts.items())
    assert now.keys() >= kept.keys()
    (case.folder / "journal" / f"{case.feed}-3.broken").unlink()
    with SparkProcessor(spark, handle, case.url, case.feed, checkpoints=checkpoints, rules=RULES) as running:
        running.wait_until_caught_up(300)
    assert {stream: sorted({*found}) for stream, found in case.journal.numbers().items()} == case.wanted(range(40))


def is_read(visit: Visit) -> bool:
    return "/events?" in visit.path


@pytest.mark.exhaustive
def test_a_round_in_which_the_hub_is_away_for_too_long_is_begun_anew(
    spark: SparkSession, hub: LiveHub, case: Case, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("penstock.spark.processors.sources.feeds.RETRY_SECONDS", 0.5)
    case.publish(range(100))
    with Line(hub.port) as line:
        line.does(*[refusing(503, "unavailable", detail="not now")] * 30, to=is_read)
        with SparkProcessor(spark, case.journal, line.url, case.feed, rules=RULES) as running:
            running.wait_until_caught_up(300)
        assert line.left < 30
    assert case.journal.numbers() == case.wanted(range(100))
    assert "a round has failed, and is begun anew: not available now: " in caplog.text


def test_a_processor_is_stopped_at_once_while_the_hub_is_away(spark: SparkSession, hub: LiveHub, case: Case) -> None:
    case.publish(range(100))
    with Line(hub.port) as line:
        processor = SparkProcessor(spark, case.journal, line.url, case.feed, checkpoints=case.checkpoints()).start()
        processor.wait_until_caught_up(300)
        line.does(*[cut] * 1000, to=lambda _: True)
        until(lambda: line.left < 1000)
        began = time.monotonic()
        processor.stop()
        took = time.monotonic() - began
    assert took < 10, "it has not waited for the hub, which it does for a minute"


def test_what_is_not_wanted_of_a_source_is_left_out_and_positions_go_on_over_it(
    spark: SparkSession, case: Case
) -> None:
    case.publish(range(100))
    file = case.breaks(3)
    source = SparkFiltered(SparkFeedSource(case.url, case.feed), streams=["-[0-4]$"], except_streams=[f"{case.feed}-2"])
    checkpoints = case.checkpoints()
    wanted = {name: numbers for name, numbers in case.wanted(range(100)).items() if name[-1] in "0134"}
    with SparkProcessor(spark, case.journal, source, checkpoints=checkpoints, rules=RULES) as running:
        until(lambda: running.engine.busy.figures(time.monotonic())["failing"].attempts > 1)
        file.unlink()
        running.wait_until_caught_up(300)
    assert case.journal.numbers() == wanted, "what was read again as well"
    assert sum(int(str(at).partition(":")[2]) for at in checkpoints.positions().values()) == 100


def retry_half_of_the_parked(checkpoints: DatabaseCheckpoints) -> None:
    for parked in checkpoints.parked()[::2]:
        checkpoints.ask(parked.stream, "retry")


def named(error: Exception) -> str:
    """Say what a failure is called."""
    return str(error)


SEEDS = [3, *(exhaustive(seed) for seed in range(100) if seed != 3)]
"""The one of `make test` parks what fails, adds partitions and has coroutines as handlers."""


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_handlers_do_each_stream_is_handled_in_order_and_nothing_is_lost(
    spark: SparkSession, case: Case, seed: int
) -> None:
    """Of ten seeds two park whatever fails, until it is asked for again, and in two calls hang and are killed.

    In four of them partitions are added, and keys move; in half handlers are coroutines, and failures are named.
    """
    chance, checkpoints, calls = Random(seed), case.checkpoints(), journal.Journal(case.folder / "calls")
    parks, hangs = seed % 5 == 3, 0.03 if seed % 5 == 4 else 0.0
    grows, is_awaited = seed % 5 in (1, 3), seed % 2 == 1
    tags: set[str] = set()
    rules = Rules(
        backoff=Backoff(first=0.01, most=0.05),
        batches_ahead=3,
        events_ahead=60,
        events_per_call=chance.randrange(3, 30),
        attempts_max=1 if parks else None,
        exhausted="park" if parks else "stop",
        timeout_s=0.5 if hangs else None,
    )
    beginnings: list[journal.Kept] = []
    samples: list[journal.Sample] = []
    total, partitions = 0, 4

    def processor(commit_s: float) -> SparkProcessor:
        kind = AwaitedCalls if is_awaited else Calls
        handler = kind(str(calls.folder), len(beginnings), seed, lasts_s=0.005, hangs=hangs)
        beginnings.append(journal.begun_with(checkpoints))
        return SparkProcessor(
            spark, handler, case.url, case.feed, checkpoints=checkpoints, rules=rules, commit_s=commit_s,
            classify=named if is_awaited else None,
        )  # fmt: skip

    for commit_s in (0.0, chance.choice([0.0, 5.0])):
        more = chance.randrange(50, 200)
        case.publish(range(total, total + more))
        total += more
        running = processor(commit_s)
        for number in range(chance.randrange(1 + grows, 4)):
            running.step()
            if grows and number == 0:
                partitions += 2
                case.client.grow_partitions(case.feed, partitions)
                case.publish(range(total, total + 30))
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
    found, log = calls.calls(), journal.log_of(case.client, case.feed, "customer")
    assert sorted(log.numbers) == [*range(total)]
    assert grows == (len(log.offsets) > 10), "else each of ten streams is in one partition"
    assert all(len(call.offsets) <= rules.events_per_call for each in found.values() for call in each)
    journal.check_order(found, log, beginnings, is_rerun=False)
    journal.check_checkpoints(samples, log)


def test_what_a_handler_skips_to_is_not_handed_out_whether_it_waits_or_comes(spark: SparkSession, case: Case) -> None:
    def skipping(stream: str, events: Sequence[Any]) -> Any:
        case_journal(stream, events)
        index = events[0].index
        return skip_to(index + 4) if index in (0, 4) else None

    case_journal, feed = case.journal, f"{case.feed}-one"
    case.client.create_event_type(feed)
    case.client.publish(feed, [{"n": n} for n in range(5)])
    checkpoints = MemoryCheckpoints()
    one = Rules(events_per_call=1)  # Then what waits is not with the call that skips it in part.
    processor = SparkProcessor(spark, skipping, case.url, feed, checkpoints=checkpoints, rules=one, commit_s=0.0)
    while processor.step():
        pass
    case.client.publish(feed, [{"n": n} for n in range(5, 12)])
    while processor.step():
        pass
    processor.close()
    assert case.journal.numbers() == {f"{feed}-0_": [0, 4, 8, 9, 10, 11]}
    assert processor.engine.repeats == 3, "all that came, and was skipped before"
    assert checkpoints.positions() == {f"{feed}/0": "1:12"}


def test_what_is_done_beside_a_stream_that_ends_the_processor_is_kept(spark: SparkSession, case: Case) -> None:
    case.publish(range(100))
    checkpoints, broken = case.checkpoints(), case.breaks(3)
    with pytest.raises(StreamExhausted, match=f"{case.feed}-3: .* has failed 1 times"), SparkProcessor(
        spark, case.journal, case.url, case.feed, checkpoints=checkpoints, rules=Rules(attempts_max=1)
    ) as running:  # fmt: skip
        running.wait_until_caught_up(300)
    ends = {f"{case.feed}/{each.partition}": f"1:{each.head}" for each in case.client.partitions(case.feed)}
    held = {tranche for tranche, end in ends.items() if checkpoints.positions()[tranche] != end}
    assert len(held) == 1, "only the partition of the stream that has failed"
    broken.unlink()
    again = {f"{case.feed}-{key}": numbers for key, numbers in enumerate(case.wanted(range(100)).values())}
    with SparkProcessor(spark, case.journal, case.url, case.feed, checkpoints=checkpoints, rules=RULES) as running:
        running.wait_until_caught_up(300)
    found = case.journal.numbers()
    assert {stream: sorted(set(numbers)) for stream, numbers in found.items()} == again
    twice = {stream for stream, numbers in found.items() if len(numbers) > len(again[stream])}
    partitions = {each.data["customer"]: each.partition for each in events_of(case)}
    assert {partitions[stream.rpartition("-")[2]] for stream in twice} <= {partitions["3"]}


def events_of(case: Case) -> list[Any]:
    """Return all that is in the feed."""
    reader = case.client.feed(case.feed)
    cursors, found = reader.cursors(), []
    while (page := reader.read(cursors)).events:
        found += page.events
        cursors = dict(page.cursors)
    return found


def test_partitions_that_are_added_while_it_runs_are_read_and_a_stream_that_fails_moves_in_order(
    spark: SparkSession, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.processing.sources.feed.LOOK_S", 0.5)
    moving = next(key for key in range(10) if hash_partition((f"{key}",), 4) != hash_partition((f"{key}",), 8))
    broken, checkpoints = f"{case.feed}-{moving}", HubCheckpoints(case.url, case.feed)
    with SparkProcessor(spark, case.journal, case.url, case.feed, checkpoints=checkpoints, rules=RULES) as running:
        case.publish(range(100))
        running.wait_until_caught_up(300)
        file = case.breaks(moving)
        case.publish(range(100, 200))
        until(lambda: broken in running.engine.busy.failing)
        case.client.grow_partitions(case.feed, 8)
        case.publish(range(200, 400))
        wanted = {name: numbers for name, numbers in case.wanted(range(400)).items() if name != broken}
        wanted[broken] = case.wanted(range(100))[broken]
        until(lambda: in_order(case.journal.numbers()) == wanted)
        file.unlink()
        running.wait_until_caught_up(300)
        assert len(running.engine.positions()) == 8
    found = case.journal.numbers()
    # Across the moment in which keys move there is no order but of what waits, and nothing is lost or comes twice.
    assert in_order(found) == case.wanted(range(400))
    assert found[broken] == case.wanted(range(400))[broken]
    assert case.client.consumer_group(case.feed).gap == 0


def test_a_feed_that_has_grown_is_caught_up_with_from_its_beginning_each_event_once_and_in_order(
    spark: SparkSession, case: Case
) -> None:
    feed, checkpoints = f"{case.feed}.grown", MemoryCheckpoints()
    case.client.create_event_type(feed, partition_count=2, partition_strategy="hash", partition_key_fields=["customer"])
    grown = Case(case.url, case.client, feed, case.journal, case.folder)
    grown.publish(range(100))
    case.client.grow_partitions(feed, 4)
    grown.publish(range(100, 150))
    moved = [key for key in range(10) if hash_partition((f"{key}",), 2) != hash_partition((f"{key}",), 4)]
    assert len(moved) > 2, "their events lie in two partitions each"
    with SparkProcessor(spark, case.journal, case.url, feed, checkpoints=checkpoints, rules=RULES) as running:
        running.wait_until_caught_up(300)
    assert case.journal.numbers() == grown.wanted(range(150))
    ends = {f"{feed}/{each.partition}": f"1:{each.head}" for each in case.client.partitions(feed)}
    assert checkpoints.positions() == ends


def in_order(numbers: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Return the numbers of each stream, sorted."""
    return {stream: sorted(found) for stream, found in numbers.items()}
