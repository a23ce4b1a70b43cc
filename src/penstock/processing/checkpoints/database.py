"""Positions in the consumer's own database, beside the read model, to commit both in one transaction."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from penstock.core.database_url import plain_url, show_url
from penstock.core.groups.parking import Request, find_waiting
from penstock.errors import BadParameter, CheckpointMoved, DatabaseUnsuitable, GroupNotFound, ParkedNotFound
from penstock.errors.root import printable
from penstock.processing.checkpoints.checkpoint import (
    Advance,
    PositionMove,
    check_moves,
    check_request,
    decode_name,
    digest,
    encode_name,
)
from penstock.processing.database import (
    Clock,
    Connect,
    Database,
    Plan,
    Step,
    connector,
    lacks_table,
    run_in_transaction,
    system_clock,
    transaction,
)
from penstock.processing.engine.parking import Parked, Place
from penstock.processing.engine.tranche import Position
from penstock.processing.parameters import check_function, check_name

if TYPE_CHECKING:
    from penstock.processing.checkpoints.reporter import PositionReporter

R = TypeVar("R")

TABLE: Final = "penstock_checkpoints"


class TablePart(NamedTuple):
    """A table of a group of tables."""

    suffix: str
    """The suffix of its name, after the first table's name."""
    creation: str
    """The statement that creates it."""
    columns: frozenset[str]


def _part(suffix: str, creation: str, columns: str) -> TablePart:
    return TablePart(suffix, creation, frozenset(columns.split()))


POSITIONS: Final = _part("", "checkpoint_create", "processor tranche position updated_at owner")
PARKED: Final = _part(
    "_parked",
    "checkpoint_parked_create",
    "processor digest stream tranche first_index next_index events attempts tag detail since parked_at request",
)
CHECKPOINTS: Final = (
    POSITIONS,
    _part("_ahead", "checkpoint_ahead_create", "processor tranche digest stream next_index"),
    PARKED,
    _part("_history", "checkpoint_history_create", "id processor tranche at came_from went_to reason"),
)
LEASES: Final = (_part("_leases", "lease_create", "processor shared"),)


class LazyTables:
    """Tables that are created at their first use. If they are dropped, a new process creates them again.

    Args:
        connect: Opens their database.
        table: The name of the first table; the others' names begin with it.
        parts: The tables.
        what: A name for their contents, in errors.
    """

    def __init__(self, connect: Connect, table: str, parts: Sequence[TablePart], what: str) -> None:
        self._connect = connect
        self._table = table
        self._parts = parts
        self._what = what
        self.are_made = False
        """True if they have been found or created."""

    def create(self) -> None:
        """Create the missing tables."""
        self.carry_out(create_tables(self._table, self._parts))

    def carry_out(self, plan: Plan[R]) -> R:
        """Carry out a plan in a transaction of its own, and return its result.

        Raises:
            DatabaseUnsuitable: the tables existed before, and are missing now: their user has to end.
        """

        def work(connection: Any) -> R:
            if not self.are_made:
                self.on(connection).carry_out(create_tables(self._table, self._parts))
            return self.on(connection).carry_out(plan)

        try:
            result = run_in_transaction(self._connect, work, self._what)
        except DatabaseUnsuitable:
            self.are_made = False
            raise
        self.are_made = True
        return result

    def exist(self) -> bool:
        """Return whether the first table exists in their own database, outside any open transaction."""
        with closing(self._connect()) as connection:
            found: bool = self.on(connection).carry_out(has_table(self._table, self._parts[0]), writes=False)
            return found

    def on(self, connection: Any) -> Database:
        """Return a `Database` that carries out plans in the transaction open on *connection*."""
        return Database(connection, self._table)


def create_tables(table: str, parts: Sequence[TablePart]) -> Plan[None]:
    """Create the missing tables of *parts*. If none is missing, the right to create tables is not needed.

    Raises:
        DatabaseUnsuitable: a table of that name exists, and lacks columns.
    """
    found: dict[TablePart, bool] = {}
    for part in parts:
        found[part] = yield from has_table(table, part)
    if not all(found.values()):
        yield Step("tables_await", {"table": table}, finds=True)
        for part in parts:
            yield Step(part.creation, {})


def has_table(table: str, part: TablePart) -> Plan[bool]:
    """Return whether the table *part* exists.

    Raises:
        DatabaseUnsuitable: a table of that name exists, and lacks columns.
    """
    name = f"{table}{part.suffix}"
    columns = {column for (column,) in (yield Step("checkpoint_columns", {"name": name}, finds=True))}
    if columns and (missing := sorted(part.columns - columns)):
        raise DatabaseUnsuitable.of("table-unsuitable", table=name, missing=missing, columns=sorted(columns))
    return bool(columns)


_FORGET: Final = (
    "checkpoint_forget",
    "checkpoint_forget_ahead",
    "checkpoint_forget_parked",
    "checkpoint_forget_history",
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


class StoredPosition(NamedTuple):
    """A stored position."""

    processor: str
    tranche: str
    position: Position
    updated_at: datetime
    parked: int
    """Number of its parked streams."""


class Intervention(NamedTuple):
    """An operator's change of a processor's progress."""

    tranche: str
    at: datetime
    came_from: Position | None
    went_to: Position | None
    reason: str | None


class ParkedAt(NamedTuple):
    """A parked stream, with its time of parking and the request for it."""

    parked: Parked
    at: datetime
    request: Request | None


class DatabaseCheckpoints:
    """Stores a processor's progress in tables of a SQLite or PostgreSQL database. Missing tables are created.

    Args:
        database: A URL, `sqlite:///FILE` or `postgresql://…`, or a function that opens a `sqlite3` or `psycopg`
            connection.
        processor: The name of the processor, under which its positions are stored.
        table: The name of the first table; the others' names begin with it.
        clock: Returns the time in microseconds since 1970, UTC.
        report_to: The address of a hub that receives the positions in its feeds, so that `penstock groups` lists the
            processor among all others. A thread sends reports every few seconds. A failed report is logged, and does
            not affect the processor.
        report_auth: The credential for that hub: see `Client`.

    Raises:
        BadParameter: an argument is invalid.
        DatabaseUnsuitable: (methods that use the database) another table has the name of one of these.
        DatabaseUnsuitable: (likewise) the tables existed before, and are missing now.
        DatabaseUnavailable: (likewise) it cannot be opened, or does not answer; nothing is changed.
        OutcomeUnknown: (methods that change something) the database did not answer to the commit.
    """

    keeps_parked = True

    def __init__(
        self,
        database: str | Connect,
        processor: str,
        *,
        table: str = TABLE,
        clock: Clock = system_clock,
        report_to: str | None = None,
        report_auth: Any = None,
    ) -> None:
        check_name("processor", processor)
        check_name("table", table)
        check_function("clock", clock)
        self.name = processor
        self.database = database
        self._table = table
        self._plans = _CheckpointPlans(processor, clock)
        self._tables = LazyTables(connector(database), table, CHECKPOINTS, "checkpoints")
        self._carry_out = self._tables.carry_out
        self._reporter = None if report_to is None else self._make_reporter(report_to, report_auth)

    def _make_reporter(self, url: str, auth: Any) -> "PositionReporter":
        from penstock.processing.checkpoints.reporter import PositionReporter

        place = f"{_show(self.database)}, table {self._table}"
        return PositionReporter(url, self.name, place, self._list_committed, auth=auth)

    def _list_committed(self) -> Mapping[str, Position]:
        found = list_stored_positions(self.database, table=self._table)
        return {each.tranche: each.position for each in found if each.processor == self.name}

    def _note_commit(self) -> None:
        if self._reporter is not None:
            self._reporter.report_soon()

    def create(self) -> None:
        """Create the missing tables, before `commit_in`. All other methods create them by themselves."""
        self._tables.create()

    def positions(self) -> Mapping[str, Position]:
        """Return the processor's positions, by tranche."""
        return self._carry_out(self._plans.positions())

    def parked(self) -> Sequence[Parked]:
        """Return the parked spans, the oldest first."""
        return [each.parked for each in self.parked_at()]

    def parked_at(self) -> Sequence[ParkedAt]:
        """Return the parked spans with their times and requests, the oldest first."""
        return self._carry_out(self._plans.parked())

    def requests(self) -> Mapping[Place, Request]:
        """Return the requests for parked streams, by stream and tranche."""
        return {each.parked.place: each.request for each in self.parked_at() if each.request is not None}

    def take_over(self, tranches: Collection[str], owner: str) -> Mapping[str, Mapping[str, int]]:
        """Make *owner* the owner of these tranches: commits that name another owner are refused.

        Returns the next index of their streams that are ahead of the position, by tranche and stream.
        """
        return self._carry_out(self._plans.take_over(tranches, owner))

    def holds(self, advance: Advance) -> bool:
        """Return whether *advance* is stored: its moved positions, parked spans and streams ahead."""
        return self._carry_out(self._plans.holds(advance))

    def commit(self, advance: Advance) -> None:
        """Store *advance* in a transaction of its own.

        Raises:
            CheckpointMoved: a stored position differs from the expected one.
        """
        self._carry_out(self._plans.commit(advance))
        self._note_commit()

    def commit_in(self, connection: Any, advance: Advance) -> None:
        """Store *advance* in the transaction that is open on *connection*. The tables must exist.

        Raises:
            CheckpointMoved: a stored position differs from the expected one. Roll back.
            WrongTransaction: no transaction is open.
            BadParameter: the connection's database has no such tables.
            DatabaseUnsuitable: the tables existed before, and are missing now.
        """
        try:
            self._tables.on(connection).carry_out(self._plans.commit(advance))
            self._note_commit()
        except Exception as error:
            if not lacks_table(error):
                raise
            if self._tables.are_made and not self._tables.exist():
                raise DatabaseUnsuitable.of(
                    "table-gone", tables="checkpoints", reason=str(error).partition("\n")[0]
                ) from error
            allowed = "kept in the database whose transaction they are to be in: there is no table of theirs"
            raise BadParameter(parameter="checkpoints", value=self.name, allowed=allowed) from error

    def ask(self, stream: str, request: Request, *, reason: str | None = None) -> None:
        """Request that a parked stream is retried or skipped. The processor does so while it runs, or when it starts.

        A request during a retry of the stream counts for that retry: if it fails, ask again.

        A skip is recorded in `history`, with the *reason*.

        Raises:
            BadParameter: the request is neither `retry` nor `skip`.
            ParkedNotFound: no stream of that name is parked.
        """
        check_request(stream, request)
        self._carry_out(self._plans.ask(stream, request, reason))

    def move(self, positions: Mapping[str, Position], *, reason: str | None = None, adds: bool = False) -> None:
        """Move positions, forward or back, without comparing the stored ones; `history` records it.

        A processor without positions begins with these. With *adds*, it can get positions of further tranches.

        Streams that are ahead of a given position are forgotten, even if the position stays the same: all events after
        it are handled. A stream that is parked further on is parked from the new position on: all its events from there
        are handled when it is retried. A running processor fails at its next commit and ends: start it again.

        Raises:
            BadParameter: the processor has no such tranche, or a position is invalid, or has another form than the
                stored one.
        """
        self._carry_out(self._plans.move(positions, reason, adds=adds))
        self._note_commit()

    def count_repeated(self, positions: Mapping[str, Position]) -> Mapping[str, int]:
        """Return how many streams of each tranche would handle events again after a `move` to *positions*.

        They are ahead of the stored position, or are parked further on.
        """
        return self._carry_out(self._plans.count_repeated(positions))

    def record(self, tranche: str, reason: str) -> None:
        """Record an intervention in the history that moves no position."""
        self._carry_out(self._plans.record(tranche, reason))

    def history(self, limit: int = 100) -> Sequence[Intervention]:
        """Return up to *limit* interventions of operators, the newest first."""
        return self._carry_out(self._plans.history(limit))

    def forget(self) -> None:
        """Delete all of the processor's progress: it starts from the beginning."""
        self._carry_out(self._plans.forget())


def list_stored_positions(database: str | Connect, *, table: str = TABLE) -> Sequence[StoredPosition]:
    """Return the positions of all processors in a database; none if it has no such table.

    Raises:
        DatabaseUnsuitable: another table has its name.
    """
    with transaction(connector(database)) as connection:
        tables = Database(connection, table)
        if not tables.carry_out(has_table(table, POSITIONS), writes=False):
            return []
        return tables.carry_out(_list_all(table), writes=False)


class _CheckpointPlans:
    """Plans that read and change one processor's progress."""

    def __init__(self, processor: str, clock: Clock) -> None:
        self._processor = processor
        self._clock = clock

    def positions(self) -> Plan[dict[str, Position]]:
        rows = yield self._query("checkpoint_find")
        return {tranche: _parse_position(text) for tranche, text in rows}

    def parked(self) -> Plan[list[ParkedAt]]:
        rows = yield self._query("checkpoint_parked")
        return [
            ParkedAt(Parked(decode_name(stream), *fields, since=_parse_position(since)), _to_time(at), request)  # type: ignore[misc]
            for stream, *fields, since, at, request in rows
        ]

    def take_over(self, tranches: Collection[str], owner: str) -> Plan[dict[str, dict[str, int]]]:
        found = {}
        for tranche in sorted(tranches):
            yield self._step("checkpoint_own", {"tranche": tranche, "owner": owner})
            found[tranche] = yield from self._list_ahead(tranche)
        return found

    def holds(self, advance: Advance) -> Plan[bool]:
        moves = {tranche: move.after for tranche, move in advance.moves.items() if move.after != move.before}
        positions = yield from self.positions()
        parked = {each.parked.place: each.parked for each in (yield from self.parked())}
        ahead = dict[Place, int]()
        for tranche in {tranche for _, tranche in advance.ahead}:
            ahead |= {(stream, tranche): index for stream, index in (yield from self._list_ahead(tranche)).items()}
        return bool(moves or advance.parked or advance.ahead) and (
            all(positions.get(tranche) == position for tranche, position in moves.items())
            and all(parked.get(place) == each for place, each in advance.parked.items())
            and all(ahead.get(place) == index for place, index in advance.ahead.items())
        )

    def commit(self, advance: Advance) -> Plan[None]:
        for tranche, move in sorted(advance.moves.items()):
            yield from self._move(tranche, move, advance.owner)
        yield from self._store_ahead(advance.ahead)
        for stream, tranche in sorted(advance.tried):
            yield self._step("checkpoint_heed", {"digest": digest(stream), "tranche": tranche})
        for (stream, tranche), parked in sorted(advance.parked.items(), key=lambda change: change[0]):
            if parked is None or (stream, tranche) in advance.anew:
                yield self._step("checkpoint_unpark", {"digest": digest(stream), "tranche": tranche})
            if parked is not None:
                yield self._step("checkpoint_park", {**_to_parameters(parked), "now": self._clock()})

    def _move(self, tranche: str, move: PositionMove, owner: str | None) -> Plan[None]:
        statement = "checkpoint_begin" if move.before is None else "checkpoint_move"
        given: dict[str, object] = {"tranche": tranche, "position": str(move.after), "now": self._clock()}
        given["owner"] = owner
        if move.before is not None:
            given["expected"] = str(move.before)
        if not (yield self._query(statement, given)):
            found = (yield from self.positions()).get(tranche)
            shown = f"{found}, but another's" if found == move.before else found
            raise CheckpointMoved(group=self._processor, tranche=tranche, expected=move.before, found=shown)

    def _list_ahead(self, tranche: str) -> Plan[dict[str, int]]:
        rows = yield self._query("checkpoint_ahead", {"tranche": tranche})
        return {decode_name(stream): index for stream, index in rows}

    def _store_ahead(self, changes: Mapping[Place, int | None]) -> Plan[None]:
        ahead = [
            (tranche, digest(stream), encode_name(stream), index)
            for (stream, tranche), index in changes.items()
            if index is not None
        ]
        met = [(tranche, digest(stream)) for (stream, tranche), index in changes.items() if index is None]
        if met:
            yield self._step("checkpoint_meet", {"met": msgspec.json.encode(met).decode()})
        if ahead:
            yield self._step("checkpoint_go_ahead", {"ahead": msgspec.json.encode(ahead).decode()})

    def ask(self, stream: str, request: Request, reason: str | None) -> Plan[None]:
        if not (yield self._query("checkpoint_ask", {"digest": digest(stream), "request": request})):
            raise ParkedNotFound.of("parked-stream-not-found", processor=self._processor, stream=stream)
        for each in (yield from self.parked()) if request == "skip" else ():
            if each.parked.stream == stream:
                text = f"{printable(stream)} is skipped from {each.parked.index} up to {each.parked.next}"
                yield from self.record(each.parked.tranche, text if reason is None else f"{text}: {reason}")

    def move(self, positions: Mapping[str, Position], reason: str | None, *, adds: bool) -> Plan[None]:
        before, now = (yield from self.positions()), self._clock()
        check_moves(positions, before, adds=adds or not before)
        parked = [each.parked for each in (yield from self.parked())]
        for tranche, position in sorted(positions.items()):
            yield self._step("checkpoint_override", {"tranche": tranche, "position": str(position), "now": now})
            yield self._step("checkpoint_fall_back", {"tranche": tranche})
            yield self._record_step(tranche, before.get(tranche), position, reason)
            for stream, (first, since) in _widen(parked, tranche, position).items():
                place = {"tranche": tranche, "digest": digest(stream)}
                yield self._step("checkpoint_widen", {**place, "first": first, "since": str(since)})

    def count_repeated(self, positions: Mapping[str, Position]) -> Plan[dict[str, int]]:
        parked = [each.parked for each in (yield from self.parked())]
        found = {}
        for tranche, position in positions.items():
            ahead = yield from self._list_ahead(tranche)
            found[tranche] = len({*ahead, *_widen(parked, tranche, position)})
        return found

    def record(self, tranche: str, reason: str) -> Plan[None]:
        at = (yield from self.positions()).get(tranche)
        yield self._record_step(tranche, at, at, reason)

    def _record_step(self, tranche: str, before: Position | None, after: Position | None, reason: str | None) -> Step:
        texts = {"came_from": None if before is None else str(before), "went_to": None if after is None else str(after)}
        return self._step("checkpoint_record", {"tranche": tranche, "now": self._clock(), **texts, "reason": reason})

    def history(self, limit: int) -> Plan[list[Intervention]]:
        rows = yield self._query("checkpoint_history", {"limit": limit})
        return [
            Intervention(tranche, _to_time(at), _parse_some_position(came_from), _parse_some_position(went_to), reason)
            for tranche, at, came_from, went_to, reason in rows
        ]

    def forget(self) -> Plan[None]:
        if not (yield from self.positions()):
            raise GroupNotFound.of("checkpoint-not-found", processor=self._processor)
        for statement in _FORGET:
            yield self._step(statement)

    def _step(self, statement: str, given: Mapping[str, object] = NOTHING) -> Step:
        return Step(statement, {"processor": self._processor, **given})

    def _query(self, statement: str, given: Mapping[str, object] = NOTHING) -> Step:
        return Step(statement, {"processor": self._processor, **given}, finds=True)


def _list_all(table: str) -> Plan[list[StoredPosition]]:
    rows = yield Step("checkpoint_all", {}, finds=True)
    is_parking = yield from has_table(table, PARKED)
    counts = (yield Step("checkpoint_parked_count", {}, finds=True)) if is_parking else []
    parked = {(processor, tranche): count for processor, tranche, count in counts}
    return [
        StoredPosition(processor, tranche, _parse_position(text), _to_time(at), parked.get((processor, tranche), 0))
        for processor, tranche, text, at in rows
    ]


def _widen(parked: Sequence[Parked], tranche: str, position: Position) -> dict[str, tuple[int, Position]]:
    """Return the parked streams that have to wait from an earlier index once a tranche is moved to *position*."""
    waiting = {
        each.stream: (each, find_waiting(each.index, each.since, position))
        for each in parked
        if each.tranche == tranche
    }
    return {stream: now for stream, (each, now) in waiting.items() if now != (each.index, each.since)}


def _to_parameters(parked: Parked) -> dict[str, object]:
    return {
        "digest": digest(parked.stream),
        "stream": encode_name(parked.stream),
        "tranche": parked.tranche,
        "index": parked.index,
        "next": parked.next,
        "events": parked.events,
        "attempts": parked.attempts,
        "tag": parked.tag,
        "detail": parked.detail,
        "since": str(parked.since),
    }


def _parse_position(text: str) -> Position:
    """Return the position stored as *text*: a number only in its usual form, so that 007 stays a text."""
    number = int(text) if text.isdecimal() else 0
    return number if str(number) == text else text


def _show(database: str | Connect) -> str:
    """Return a readable name of a database, without user, password and query."""
    return show_url(plain_url(database)).partition("?")[0] if isinstance(database, str) else "a database of its own"


def _parse_some_position(text: str | None) -> Position | None:
    return None if text is None else _parse_position(text)


def _to_time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
