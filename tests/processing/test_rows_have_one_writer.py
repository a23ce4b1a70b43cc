"""Whoever is started under a name takes over its rows, and what it has parked: nobody else writes them any more."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from penstock.errors import CheckpointMoved, OutcomeUnknown, ProjectionGone, TableGone
from penstock.processing import Backoff, Inline, MemoryCheckpoints, MemorySource, Rules, StreamEvent, retry
from penstock.processing.checkpoints.checkpoint import Advance, Checkpoints
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.projections.projection import Projection
from penstock.spark.projections.database import DatabaseTarget

RULES = Rules(attempts_max=2, exhausted="park", backoff=Backoff(first=10, jitter=0))


@dataclass
class Seen:
    numbers: list[int] = field(default_factory=list)


def added(seen: Seen, event: StreamEvent) -> Seen:
    if event.data == "poison":
        raise ValueError("no")
    return Seen([*seen.numbers, event.data])


def by_stream(event: StreamEvent) -> str:
    return event.stream


def opened(url: str) -> Any:
    return sqlite3.connect(url[10:]) if url.startswith("sqlite") else psycopg.connect(url)


def changed(url: str, *statements: str) -> None:
    with closing(opened(url)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def written(url: str) -> dict[str, str]:
    with closing(opened(url)) as connection:
        return {key: str(numbers) for key, numbers in connection.execute("SELECT key, numbers FROM seen").fetchall()}


def parking(checkpoints: Checkpoints, source: MemorySource) -> Inline:
    """Return a processor that has parked a stream, and not committed that, while another holds its position."""

    def handle(stream: str, _: Any) -> Any:
        if stream == "parks":
            raise ValueError("no")
        return retry(60) if stream == "waits" else None

    found = Inline(handle, source, checkpoints=checkpoints, rules=Rules(attempts_max=1, exhausted="park"))
    source.append("goes", [0])
    found.drain()
    for stream in ("waits", "parks"):
        source.append(stream, [0])
        found._read()
    while found._call():
        pass
    return found


@pytest.mark.parametrize("is_on_spark", [False, True], ids=["in process", "on Spark"])
def test_a_table_that_was_dropped_is_not_made_anew_while_its_checkpoint_says_that_it_is_built(
    database_url: str, *, is_on_spark: bool
) -> None:
    source, projection = MemorySource(), Projection("seen", Seen, added, key=by_stream)
    source.append("R", [1])
    projection.inline(source, database_url).drain()
    changed(database_url, "DROP VIEW seen", "DROP TABLE seen_v1")
    source.append("R", [2])

    told = r"the database has no rows of seen_v1 any more, but how far they went: \{'0': 1\}.* checkpoint forget"
    for _ in range(2):
        with pytest.raises(ProjectionGone, match=told):
            DatabaseTarget(projection, database_url) if is_on_spark else projection.inline(source, database_url)
    DatabaseCheckpoints(database_url, "seen_v1").forget()
    if is_on_spark:
        DatabaseTarget(projection, database_url)
    projection.inline(source, database_url).drain()
    assert [each.replace(" ", "") for each in written(database_url).values()] == ["[1,2]"]


@pytest.mark.parametrize(
    ("dropped", "gone"),
    [
        (["VIEW seen", "TABLE seen_v1"], ProjectionGone),
        ([f"TABLE penstock_checkpoints{suffix}" for suffix in ("", "_parked", "_ahead", "_history")], TableGone),
    ],
    ids=["rows", "checkpoints"],
)
def test_tables_that_are_dropped_beneath_a_projection_end_it_and_are_no_failure_of_its_rows(
    database_url: str, dropped: list[str], gone: type[Exception]
) -> None:
    source, projection = MemorySource(), Projection("seen", Seen, added, key=by_stream)
    source.append("R", [1])
    running = projection.inline(source, database_url, rules=Rules(attempts_max=1, exhausted="park"))
    running.drain()
    changed(database_url, *(f"DROP {each}" for each in dropped))
    source.append("R", [2])

    with pytest.raises(gone, match="any more"):
        running.drain()
    assert not running.engine.parking.streams


def test_of_two_that_fold_into_the_same_rows_only_the_newer_writes_though_no_position_moves(database_url: str) -> None:
    source, projection = MemorySource(), Projection("seen", Seen, added, key=by_stream)
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
    before = written(database_url)

    with pytest.raises(CheckpointMoved, match="at 0, but another's"):
        old._call()
    assert written(database_url) == before
    assert before["R"].replace(" ", "") == "[1,2,3]"


@pytest.mark.parametrize("is_lost", [False, True], ids=["", "after a lost answer"])
def test_what_is_parked_by_who_was_taken_over_is_not_kept(database_url: str, *, is_lost: bool) -> None:
    source, checkpoints = MemorySource(), Deaf(database_url, "mailer")
    first = parking(checkpoints, source)
    if is_lost:
        checkpoints.is_deaf = True
        with pytest.raises(OutcomeUnknown):
            first._progress.commit()
        checkpoints.is_deaf = False
    Inline(lambda *_: None, source, checkpoints=DatabaseCheckpoints(database_url, "mailer"))._read()

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


def test_what_is_parked_by_who_was_overtaken_is_kept_nowhere() -> None:
    source, checkpoints = MemorySource(), MemoryCheckpoints("mailer")
    first = parking(checkpoints, source)
    Inline(lambda *_: None, source, checkpoints=checkpoints).drain()

    with pytest.raises(CheckpointMoved, match="at 3; this processor has left it at 1"):
        first._progress.commit()
    assert not checkpoints.parked()


class Growing(MemorySource):
    """Has one tranche more when that is wanted."""

    has_more = False

    def tranches(self) -> Sequence[str]:
        return [*super().tranches()][: 2 if self.has_more else 1]


def test_who_was_taken_over_begins_with_nothing_more(database_url: str) -> None:
    source = Growing("0", "1")
    source.append("S", [0])
    first, second = (
        Inline(lambda *_: None, source, checkpoints=DatabaseCheckpoints(database_url, "mailer")) for _ in range(2)
    )
    first.drain()
    second.drain()
    source.has_more = True
    with pytest.raises(CheckpointMoved, match="at 1, but another's"):
        first.drain()
    second.drain()
    assert DatabaseCheckpoints(database_url, "mailer").positions() == {"0": 1, "1": 0}
