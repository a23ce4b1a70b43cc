"""The newest processor of a name takes over its rows, positions and parked streams; an older one writes no more."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.errors import CheckpointMoved, DatabaseUnsuitable, OutcomeUnknown, ProjectionNotFound
from penstock.processing import InlineProcessor, Rules, StreamEvent, Transactional
from penstock.processing.checkpoints import MemoryCheckpoints
from penstock.processing.checkpoints.checkpoint import Advance, Checkpoints
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.engine import Backoff
from penstock.processing.outcomes import retry
from penstock.processing.projections.projection import Projection
from penstock.processing.sources import MemorySource
from penstock.spark.projections.database import DatabaseTarget
from tests.failing import has_code
from tests.processing.sql import execute, rows

RULES = Rules(attempts_max=2, exhausted="park", backoff=Backoff(first_seconds=10, jitter=0))


@dataclass
class Seen:
    numbers: list[int] = field(default_factory=list)


def add(seen: Seen, event: StreamEvent) -> Seen:
    if event.data == "poison":
        raise ValueError("no")
    return Seen([*seen.numbers, event.data])


def by_stream(event: StreamEvent) -> str:
    return event.stream


def read_rows(url: str) -> dict[str, str]:
    return {key: str(numbers).replace(" ", "") for key, numbers in rows(url, "SELECT key, numbers FROM seen")}


def parking(checkpoints: Checkpoints, source: MemorySource) -> InlineProcessor:
    """Return a processor that has parked a stream, and not committed that, while another holds its position."""

    def handle(stream: str, _: Any) -> Any:
        if stream == "parks":
            raise ValueError("no")
        return retry(60) if stream == "waits" else None

    found = InlineProcessor(handle, source, checkpoints=checkpoints, rules=Rules(attempts_max=1, exhausted="park"))
    source.append("goes", [0])
    found.drain()
    for stream in ("waits", "parks"):
        source.append(stream, [0])
        found._read()
    while found._call():
        pass
    return found


@pytest.mark.parametrize("is_on_spark", [False, True], ids=["in process", "on Spark"])
def test_dropped_table_is_not_created_again_while_its_checkpoint_exists(
    database_url: str, *, is_on_spark: bool
) -> None:
    source, projection = MemorySource(), Projection("seen", Seen, add, key=by_stream)
    source.append("R", [1])
    projection.inline(source, database_url).drain()
    execute(database_url, "DROP VIEW seen", "DROP TABLE seen_v1")
    source.append("R", [2])

    told = r"the database has no rows of seen_v1 any more, but its positions: \{'0': 1\}.* groups delete"
    for _ in range(2):
        with pytest.raises(ProjectionNotFound, check=has_code("projection-gone"), match=told):
            DatabaseTarget(projection, database_url) if is_on_spark else projection.inline(source, database_url)
    DatabaseCheckpoints(database_url, "seen_v1").forget()
    if is_on_spark:
        DatabaseTarget(projection, database_url)
    projection.inline(source, database_url).drain()
    assert [*read_rows(database_url).values()] == ["[1,2]"]


@pytest.mark.parametrize(
    ("dropped", "gone"),
    [
        (["VIEW seen", "TABLE seen_v1"], "projection-gone"),
        ([f"TABLE penstock_checkpoints{suffix}" for suffix in ("", "_parked", "_ahead", "_history")], "table-gone"),
    ],
    ids=["rows", "checkpoints"],
)
def test_tables_dropped_beneath_a_projection_end_it_and_park_nothing(
    database_url: str, dropped: list[str], gone: str
) -> None:
    source, projection = MemorySource(), Projection("seen", Seen, add, key=by_stream)
    source.append("R", [1])
    running = projection.inline(source, database_url, rules=Rules(attempts_max=1, exhausted="park"))
    running.drain()
    execute(database_url, *(f"DROP {each}" for each in dropped))
    source.append("R", [2])

    kinds = (ProjectionNotFound, DatabaseUnsuitable)
    with pytest.raises(kinds, check=has_code(gone), match=r"any more|no longer exist"):
        running.drain()
    assert not running.engine.parking.streams


def test_older_of_two_projection_processors_writes_no_row(database_url: str) -> None:
    source, projection = MemorySource(), Projection("seen", Seen, add, key=by_stream)
    source.append("P", ["poison"])
    source.append("R", [1])
    old = projection.inline(source, database_url, rules=RULES)
    old.drain()
    new = projection.inline(source, database_url, rules=RULES)
    new.drain()
    source.append("R", [2])
    old._read()
    source.append("R", [3])
    new.drain()
    assert DatabaseCheckpoints(database_url, "seen_v1").positions() == {"0": 0}, "the poison event holds it"
    before = read_rows(database_url)

    with pytest.raises(CheckpointMoved, match="at 0, but another's"):
        old._call()
    assert read_rows(database_url) == before
    assert before["R"] == "[1,2,3]"


@pytest.mark.parametrize("is_lost", [False, True], ids=["", "after a lost answer"])
def test_parked_stream_of_a_fenced_processor_is_not_committed(database_url: str, *, is_lost: bool) -> None:
    source, checkpoints = MemorySource(), Deaf(database_url, "mailer")
    first = parking(checkpoints, source)
    if is_lost:
        checkpoints.is_deaf = True
        with pytest.raises(OutcomeUnknown):
            first._progress.commit()
        checkpoints.is_deaf = False
    InlineProcessor(lambda *_: None, source, checkpoints=DatabaseCheckpoints(database_url, "mailer"))._read()

    with pytest.raises(CheckpointMoved, match="at 1, but another's"):
        first._progress.commit()
    assert not checkpoints.parked()


class Deaf(DatabaseCheckpoints):
    """Does not do what it is to, and does not say so."""

    is_deaf = False

    def commit(self, advance: Advance) -> None:
        if self.is_deaf:
            raise OutcomeUnknown(reason="the answer was lost")
        super().commit(advance)


def test_parked_stream_of_an_overtaken_processor_in_memory_is_not_committed() -> None:
    source, checkpoints = MemorySource(), MemoryCheckpoints("mailer")
    first = parking(checkpoints, source)
    InlineProcessor(lambda *_: None, source, checkpoints=checkpoints).drain()

    with pytest.raises(CheckpointMoved, match="at 3; this processor has left it at 1"):
        first._progress.commit()
    assert not checkpoints.parked()


class Growing(MemorySource):
    """Has one tranche more when that is wanted."""

    has_more = False

    def tranches(self) -> Sequence[str]:
        return [*super().tranches()][: 2 if self.has_more else 1]


def test_fenced_processor_opens_no_new_tranche(database_url: str) -> None:
    source = Growing("0", "1")
    source.append("S", [0])
    first, second = (
        InlineProcessor(lambda *_: None, source, checkpoints=DatabaseCheckpoints(database_url, "mailer"))
        for _ in range(2)
    )
    first.drain()
    second.drain()
    source.has_more = True
    with pytest.raises(CheckpointMoved, match="at 1, but another's"):
        first.drain()
    second.drain()
    assert DatabaseCheckpoints(database_url, "mailer").positions() == {"0": 1, "1": 0}


class Mailer:
    """A transactional handler that keeps the events it is called with; some streams fail."""

    def __init__(self, url: str) -> None:
        self.source = MemorySource()
        self.checkpoints = DatabaseCheckpoints(url, "mailer")
        self.failing: set[str] = set()
        self.had: list[tuple[str, Any]] = []
        self._url = url

    def processor(self) -> InlineProcessor:
        """Return a new processor that has not begun yet."""
        handler = Transactional(self._url, self._handle, DatabaseCheckpoints(self._url, "mailer"))
        return InlineProcessor(handler, self.source, rules=Rules(attempts_max=1, exhausted="park"))

    def _handle(self, _: Any, spans: Sequence[Any]) -> list[Any]:
        return [ValueError("no") if each.stream in self.failing else self._have(each) for each in spans]

    def _have(self, span: Any) -> None:
        self.had += [(span.stream, event.data) for event in span.events]


@pytest.fixture
def mailer(database_url: str) -> Mailer:
    return Mailer(database_url)


def test_events_committed_before_a_takeover_are_not_repeated(mailer: Mailer) -> None:
    first = mailer.processor()
    mailer.source.append("S", [0])
    first.drain()
    second = mailer.processor()
    mailer.source.append("S", [1])
    first.drain()
    mailer.source.append("S", [2])

    second.drain()

    assert mailer.had == [("S", 0), ("S", 1), ("S", 2)]
    with pytest.raises(CheckpointMoved):
        first.drain()


@pytest.mark.parametrize("end", ["retry", "skip"])
def test_stream_retried_or_dropped_before_a_takeover_is_not_parked(mailer: Mailer, end: Any) -> None:
    first = mailer.processor()
    mailer.failing.add("S")
    mailer.source.append("S", [0])
    first.drain()
    second = mailer.processor()
    mailer.failing.clear()
    mailer.checkpoints.ask("S", end)
    first.drain()

    second.drain()
    mailer.source.append("S", [1])
    second.drain()

    assert not mailer.checkpoints.parked()
    assert mailer.had == [*([("S", 0)] if end == "retry" else []), ("S", 1)]


def test_stream_parked_before_a_takeover_is_retried_after_it(mailer: Mailer) -> None:
    first, second = mailer.processor(), mailer.processor()
    mailer.failing.add("S")
    mailer.source.append("S", [0])
    first.drain()
    mailer.failing.clear()

    second.drain()
    assert not mailer.had
    mailer.checkpoints.ask("S", "retry")
    second.drain()

    assert mailer.had == [("S", 0)]
    assert not mailer.checkpoints.parked()
