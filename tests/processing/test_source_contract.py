"""The contract of sources that processors share and read again: feeds, categories of a MessageDB, topics of Kafka."""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import BadParameter, Unavailable
from penstock.processing import DatabaseCheckpoints, InlineProcessor, LocalProcessor, Rules
from penstock.processing.checkpoints import MemoryCheckpoints
from penstock.processing.checkpoints.leases import DatabaseLeases
from penstock.processing.sources import ReadRequest, Source
from penstock.testing.live_hub import LiveHub, live_hub
from tests.exhaustive import exhaustive
from tests.processing.office import until
from tests.processing.programs import Program, running
from tests.processing.shared_work import handler_in
from tests.processing.source_places import KEYS, TRANCHES, CategoriesPlace, FeedPlace, KafkaPlace, Place, source_of
from tests.spark.message_db import message_databases, message_db_url

__all__ = ["message_databases", "message_db_url"]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub for all tests."""
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db") as hub:
        yield hub


@pytest.fixture(params=["feed", "messagedb", "kafka"])
def place(request: pytest.FixtureRequest) -> Place:
    """Somewhere to read from, which is empty."""
    if request.param == "feed":
        hub: LiveHub = request.getfixturevalue("hub")
        return FeedPlace(hub.url)
    if request.param == "messagedb":
        return CategoriesPlace(request.getfixturevalue("message_db_url"))
    return KafkaPlace(request.getfixturevalue("kafka"))


def opened(place: Place, **options: Any) -> Source:
    return source_of(place.kind, place.address, place.name, **options)


class Handled:
    """What was handled: numbers by stream, in their order."""

    def __init__(self) -> None:
        self.numbers: defaultdict[str, list[int]] = defaultdict(list)
        self.broken: set[str] = set()
        self._turn = threading.Lock()

    def __call__(self, stream: str, events: Any) -> None:
        if stream in self.broken:
            raise ValueError("broken")
        with self._turn:
            self.numbers[stream] += [event.data["n"] for event in events]

    def count(self) -> int:
        with self._turn:
            return sum(map(len, self.numbers.values()))


def expected(place: Place, numbers: Iterable[int]) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for n in numbers:
        found[place.stream(n % KEYS)].append(n)
    return dict(found)


def drain(place: Place, handled: Handled, checkpoints: Any, **options: Any) -> None:
    source = opened(place, **options)
    try:
        InlineProcessor(handled, source, checkpoints=checkpoints).drain()
    finally:
        source.close()


def test_streams_are_handled_in_order_and_resumed_behind_the_checkpoint(place: Place) -> None:
    handled, checkpoints = Handled(), MemoryCheckpoints()
    place.publish(range(1_000))
    drain(place, handled, checkpoints)
    assert handled.numbers == expected(place, range(1_000))
    place.publish(range(1_000, 1_100))
    drain(place, handled, checkpoints)
    drain(place, handled, checkpoints)
    assert handled.numbers == expected(place, range(1_100))


def test_page_is_read_in_parts_of_any_size_and_whole_after_a_failure(place: Place) -> None:
    place.publish(range(60))
    source = opened(place)
    for size in (1, 7, 60):
        found: defaultdict[str, list[int]] = defaultdict(list)
        positions = {tranche: source.beginning(tranche) for tranche in source.tranches()}
        while True:
            batches = source.read({name: ReadRequest(at, size) for name, at in positions.items()}, 0.0)
            if all(batch.end == positions[batch.tranche] for batch in batches):
                break
            for batch in batches:
                positions[batch.tranche] = batch.end
                for item in batch.items:
                    found[item.stream].append(item.data["n"])  # type: ignore[attr-defined]
        assert found == expected(place, range(60))
        assert not any(source.behind(positions).values())
    source.close()


def test_events_that_come_while_a_processor_waits_are_handled(place: Place) -> None:
    handled = Handled()
    with LocalProcessor(handled, opened(place)) as processor:
        processor.wait_until_caught_up(300)
        place.publish(range(100))
        until(lambda: handled.count() == 100)
        place.publish(range(100, 200))
        processor.wait_until_caught_up(300)
    assert handled.numbers == expected(place, range(200))


def test_new_processor_begins_at_its_start_and_an_old_one_where_it_was(place: Place) -> None:
    place.publish(range(100))
    begun = datetime.now(UTC)
    until(lambda: datetime.now(UTC) > begun + timedelta(milliseconds=50))  # Kafka's times are milliseconds.
    middle = datetime.now(UTC)
    until(lambda: datetime.now(UTC) > middle + timedelta(milliseconds=50))

    def handle_from(start: Any, then: range = range(0)) -> dict[str, list[int]]:
        handled, source = Handled(), opened(place, start=start)
        running = InlineProcessor(handled, source, checkpoints=MemoryCheckpoints())
        running.drain()
        place.publish(then)
        running.drain()
        source.close()
        return dict(handled.numbers)

    assert handle_from("latest", range(100, 160)) == expected(place, range(100, 160))
    assert handle_from("earliest") == expected(place, range(160))
    assert handle_from(middle) == expected(place, range(100, 160))
    assert handle_from(timedelta(hours=1)) == expected(place, range(160))
    assert handle_from(datetime.now(UTC) + timedelta(minutes=1)) == {}


def test_behind_counts_what_no_position_has_passed(place: Place) -> None:
    source, checkpoints = opened(place), MemoryCheckpoints()
    assert source.behind({}) == dict.fromkeys(source.tranches(), 0)
    place.publish(range(200))
    assert sum(gap or 0 for gap in source.behind({}).values()) == 200
    drain(place, Handled(), checkpoints)
    assert source.behind(checkpoints.positions()) == dict.fromkeys(source.tranches(), 0)
    place.publish(range(30))
    assert sum(gap or 0 for gap in source.behind(checkpoints.positions()).values()) == 30
    source.close()


def test_position_behind_the_end_is_refused(place: Place) -> None:
    place.publish(range(20))
    source = opened(place)
    tranche = next(iter(source.tranches()))
    beyond = "1:10000" if place.kind == "feed" else 10_000
    with pytest.raises(BadParameter, match=r"position is .*10000.*groups reset` moves a processor there"):
        source.read({tranche: ReadRequest(beyond, 10)}, 0.0)
    source.close()


def test_closed_source_wakes_its_reader_and_answers_nothing_more(place: Place) -> None:
    source = opened(place)
    wants = {tranche: ReadRequest(source.beginning(tranche), 10) for tranche in source.tranches()}
    ended = threading.Event()

    def read() -> None:
        with suppress(Unavailable):
            while not source.is_closed:  # type: ignore[attr-defined]
                source.read(wants, 300.0)
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    source.close()
    assert ended.wait(300)
    source.close()
    with pytest.raises(Unavailable, match="the source is closed"):
        source.behind({})


def test_parked_stream_is_read_again_while_others_go_on(place: Place, database_url: str) -> None:
    handled, checkpoints = Handled(), DatabaseCheckpoints(database_url, "parking")
    handled.broken = {place.stream(3), place.stream(4)}
    rules = Rules(attempts_max=1, exhausted="park")
    with LocalProcessor(handled, opened(place), checkpoints=checkpoints, rules=rules) as processor:
        place.publish(range(600))
        processor.wait_until_caught_up(300)
        place.publish(range(600, 700))
        processor.wait_until_caught_up(300)
    assert {parked.stream for parked in checkpoints.parked()} == handled.broken
    for stream in handled.broken:
        assert stream not in handled.numbers
        checkpoints.ask(stream, "retry")
    handled.broken = set()
    with LocalProcessor(handled, opened(place), checkpoints=checkpoints, rules=rules) as processor:
        place.publish(range(700, 800))
        processor.wait_until_caught_up(300)
    assert handled.numbers == expected(place, range(800))
    assert [*checkpoints.parked()] == []


SHARED = pytest.mark.parametrize("place", ["messagedb", "kafka", exhaustive("feed")], indirect=True)
"""`test_processors_share_their_work` has the same of feeds."""


def read_handled(folder: Path) -> dict[str, list[str]]:
    return {path.stem: path.read_text().splitlines() for path in folder.glob("*.log")}


def expected_lines(place: Place, numbers: Iterable[int]) -> dict[str, list[str]]:
    return {stream: [str(n) for n in found] for stream, found in expected(place, numbers).items()}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    found = tmp_path / "handled"
    found.mkdir()
    return found


@SHARED
def test_tranches_change_hands_as_processors_join_and_stop_without_repeats(
    place: Place, postgres_url: str, folder: Path
) -> None:
    checkpoints = DatabaseCheckpoints(postgres_url, "crew")

    def local() -> LocalProcessor:
        leases = DatabaseLeases(postgres_url, "crew", lease_seconds=4.0)
        return LocalProcessor(
            handler_in(str(folder)), opened(place), checkpoints=checkpoints, leases=leases, commit_interval=0.1
        ).start()

    def shares() -> list[int]:
        return sorted(len(each._progress._open - each._progress.closing) for each in running)

    def count() -> int:
        return sum(map(len, read_handled(folder).values()))

    place.publish(range(300))
    running = [local()]
    until(lambda: shares() == [TRANCHES])
    place.publish(range(300, 500))
    running.append(local())
    until(lambda: shares() == [1, 2])
    place.publish(range(500, 700))
    until(lambda: count() == 700)
    running.pop(0).stop()
    until(lambda: shares() == [TRANCHES])
    place.publish(range(700, 900))
    running.append(local())
    until(lambda: shares() == [1, 2])
    place.publish(range(900, 1000))
    until(lambda: count() == 1000)
    for each in running:
        each.stop()
    assert read_handled(folder) == expected_lines(place, range(1000))


@SHARED
def test_successor_takes_over_from_a_killed_processor_and_skips_nothing(
    place: Place, postgres_url: str, folder: Path
) -> None:
    arguments = (
        "-m", "tests.processing.source_crew", place.kind, place.address, place.name, postgres_url, str(folder),
    )  # fmt: skip
    alive: list[Program] = []
    with ExitStack() as programs:

        def start() -> None:
            alive.append(programs.enter_context(running(*arguments)))
            assert alive[-1].line() == "running"

        start()
        start()
        place.publish(range(300))
        until(lambda: sum(map(len, read_handled(folder).values())) > 20)
        alive.pop(0).kill()
        start()
        place.publish(range(300, 400))
        checkpoints, source = DatabaseCheckpoints(postgres_url, "crew"), opened(place)
        until(lambda: not any(source.behind(checkpoints.positions()).values()))
        source.close()
    found = read_handled(folder)
    assert not [stream for stream, lines in found.items() if "two at once" in lines]
    # Events that were handled and not committed before the kill come again: in order, from there on.
    assert {stream: list(dict.fromkeys(lines)) for stream, lines in found.items()} == expected_lines(place, range(400))
