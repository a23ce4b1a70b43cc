"""Projections: the rows of a table are folds of events, each by a key, in versions.

    Projection         the read model: its name and version, its table, and its processors
    KeyedSource        a source whose streams are the rows
    Fold               folds events into one row, without I/O
    ProjectionHandler  finds rows, folds events into them, and stores the changed ones, as a set

Executors of Spark import this module: runners in this process are imported on use, since executors may lack them.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from penstock.core.groups.parking import is_before
from penstock.errors import BadParameter, ProjectionBehind, ProjectionNotFound
from penstock.processing.checkpoints.checkpoint import Checkpoints
from penstock.processing.database import Connect, connector, is_missing, lacks_table, transaction
from penstock.processing.engine.tranche import Batch, Position, SourceItem, bad_index
from penstock.processing.outcomes import done_to
from penstock.processing.parameters import check_count, check_function, check_kind, check_seconds
from penstock.processing.projections.columns import (
    find_wrong_state,
    list_key_columns,
    list_key_types,
    list_state_columns,
    make_key,
)
from penstock.processing.projections.table import Key, Row, Table
from penstock.processing.sources.source import ReadRequest, Source, check_source

# Executors of Spark import this module: what they may lack is imported on use.
if TYPE_CHECKING:
    from penstock.processing.runners.inline import InlineProcessor
    from penstock.processing.runners.local import LocalProcessor
    from penstock.processing.together import Span, Transactional


NO_KEY: Final[Key] = ()
"""The key of events whose key function fails. No row has it, so they fail, and block no row."""


class KeyedEvent(msgspec.Struct, gc=False):
    """An event, and the row that it belongs to."""

    stream: str
    index: int
    next: int
    key: Key
    """`NO_KEY`: the key function has failed."""
    line: str
    """The line of its index: a tranche of the source, or the event's own stream if indices are by stream."""
    event: Any
    wrong: Exception | None = None
    """The exception of the key function."""


class KeyedSource:
    """A source of events as entries of rows, with a stream for each row and line: `["AA",1] in flights/3`.

    Events whose key function fails are a separate stream for each line, `[] in flights/3`, which fails when it is
    handled.

    Args:
        source: The source of the events.
        key: Returns the key of an event's row; None: the event belongs to no row.

    Raises:
        BadParameter: the source is none.
    """

    is_dense = False

    def __init__(self, source: Source, key: Callable[[Any], Key | None]) -> None:
        check_source(source)
        self.inner = source
        self._key = key
        self.is_by_stream = source.is_by_stream
        self.is_replayable = source.is_replayable

    def tranches(self) -> Collection[str]:
        """Return the tranches of the source."""
        return self.inner.tranches()

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:
        """Return the first position of the source."""
        return self.inner.beginning(tranche, kept)

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return the events of the source as entries of rows."""
        return [self._key_batch(batch) for batch in self.inner.read(wants, timeout)]

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        """Read a tranche of the source again, as entries of rows."""
        return self._key_batch(self.inner.reread(tranche, want))

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return how many events are behind; those of no row count, too."""
        return self.inner.behind(positions)

    def close(self) -> None:
        """Close the source."""
        self.inner.close()

    def _key_batch(self, batch: Batch) -> Batch:
        names = dict[tuple[Any, str], str]()
        kept: list[SourceItem] = []
        for item in batch.items:
            wrong = None
            try:
                key = self._key(item)
            except Exception as error:  # noqa: BLE001 - It is a failure of this event, not of the read.
                key, wrong = NO_KEY, error
            if key is None:
                continue
            line = item.stream if self.is_by_stream else batch.tranche
            name = names.get((key, line))
            if name is None:
                name = names[key, line] = f"{msgspec.json.encode(key).decode()} in {line}"
            kept.append(KeyedEvent(name, item.index, item.next, key, line, item, wrong))
        return batch._replace(items=kept)


@dataclass(frozen=True)
class Fold:
    """A pure function from a row and events to a row. It can be sent to other processes.

    Args:
        initial: Returns the state before the first event.
        evolve: Folds an event into a state; None: the row is deleted. It may change its argument.
        wrong: Returns the error of a state that cannot be a row; None: it can.
        is_flat: True if all fields of a state have immutable values.
    """

    initial: Callable[[], Any]
    evolve: Callable[[Any, Any], Any]
    wrong: Callable[[Any], Exception | None]
    is_flat: bool

    def __call__(
        self, row: Row | None, line: str, entries: Sequence[KeyedEvent]
    ) -> tuple[Row | None, KeyedEvent | None, Exception | None]:
        """Fold *entries* of one line into the row; return the row, the entry that has failed, and its error.

        The row is None if it has not changed.
        """
        positions = {} if row is None else row.positions
        begun = positions.get(line, 0)
        fresh = [entry for entry in entries if entry.index >= begun]
        if len(fresh) < len(entries) and (below := next((each for each in entries if each.index < 0), None)):
            return None, below, bad_index(below, line)
        state, count, error = self._fold(row, fresh)
        folded = len(fresh)
        while count < folded:  # A failed call may have changed the state: it is built again.
            folded = count
            state, count, earlier = self._fold(row, fresh[:folded])
            error = earlier or error
        failed = None if error is None else fresh[count]
        if count == 0:
            return None, failed, error
        return Row(state, {**positions, line: fresh[count - 1].next}), failed, error

    def _fold(self, row: Row | None, entries: Sequence[KeyedEvent]) -> tuple[Any, int, Exception | None]:
        """Return the state with *entries* folded in, up to the first that fails, and the number of these.

        Each state is checked, not only the last: so the failing event does not depend on the size of calls.
        """
        evolve, initial = self.evolve, self.initial
        state = None if row is None or row.state is None else (copy if self.is_flat else deepcopy)(row.state)
        for count, entry in enumerate(entries):
            try:
                state = evolve(initial() if state is None else state, entry.event)
                if state is not None and (wrong := self.wrong(state)):
                    raise wrong
            except Exception as error:  # noqa: BLE001 - It is a failure of this row, and of no other.
                return None, count, error
        return state, len(entries), None


REMEMBER: Final = 100_000
"""Maximum number of rows in the cache of a projection's handler."""


class ProjectionHandler:
    """The handler of a projection: see `Transactional`.

    A cache holds recently written rows once they are committed, since there is no other writer. If several processors
    share the work, nothing is cached, and they fold one after the other.

    Args:
        table: The table of the rows.
        fold: Folds events into one row.
        is_shared: True if other processors fold their share of the events into the same table.
    """

    def __init__(
        self,
        table: Table,
        fold: Fold,
        *,
        is_shared: bool = False,
    ) -> None:
        self._table = table
        self._fold = fold
        self._is_shared = is_shared
        self._remember = 0 if is_shared else REMEMBER
        self._known: OrderedDict[Key, Row] = OrderedDict()
        self._written: dict[Key, Row] = {}

    def __call__(self, connection: Any, spans: "Sequence[Span]") -> list[Any]:
        """Fold *spans* of entries into their rows; return the result of each.

        Raises:
            ProjectionNotFound: its table no longer exists.
        """
        try:
            return self._fold_all(connection, spans)
        except Exception as error:
            if not lacks_table(error):
                raise
            where = "as its checkpoint says"
            raise ProjectionNotFound.of(
                "projection-gone", projection=self._table.name, path="the database", positions=where
            ) from error

    def _fold_all(self, connection: Any, spans: "Sequence[Span]") -> list[Any]:
        if self._is_shared:
            self._table.lock(connection)
        keys = [span.events[0].key for span in spans]
        rows = {key: self._known[key] for key in keys if key in self._known}
        wanted = dict.fromkeys(key for key in keys if key not in rows and key != NO_KEY)
        rows |= self._table.find(connection, wanted)
        changed: dict[Key, Row] = {}
        results = []
        for key, span in zip(keys, spans, strict=True):
            wrong = span.events[0].wrong
            row, result = self._fold_span(rows.get(key), span) if wrong is None else (None, wrong)
            results.append(result)
            if row is not None:
                rows[key] = changed[key] = row
        self._table.store(connection, changed)
        self._written = changed
        return results

    def end_call(self, is_committed: bool) -> None:
        """Cache the written rows if the transaction *is_committed*, else drop them."""
        written, self._written = self._written, {}
        for key, row in written.items():
            self._known.pop(key, None)
            if is_committed:
                self._known[key] = row
        while len(self._known) > self._remember:
            self._known.popitem(last=False)

    def _fold_span(self, row: Row | None, span: "Span") -> tuple[Row | None, Any]:
        """Return the row with a span folded in, None if it is unchanged; and the result of the span."""
        folded, failed, error = self._fold(row, span.events[0].line, span.events)
        if failed is None or folded is None:
            return folded, error
        return folded, done_to(failed.index)


def find_built_positions(checkpoints: Checkpoints) -> Mapping[str, Position]:
    """Return the position up to which a version is built, by tranche: at most that of parked rows."""
    found = dict(checkpoints.positions())
    for each in checkpoints.parked():
        at = found.get(each.tranche)
        if at is None or is_before(each.since, at):
            found[each.tranche] = each.since
    return found


def check_built(projection: str, built: Mapping[str, Position], shown: str, there: Mapping[str, Position]) -> None:
    """Check that a version is *built* up to the positions *there* of the *shown* version.

    Raises:
        ProjectionBehind: it is not; names the tranches.
    """
    behind = {
        tranche: f"at {built[tranche]} of {other}" if tranche in built else f"not begun, of {other}"
        for tranche, other in there.items()
        if tranche not in built or is_before(built[tranche], other)
    }
    if behind:
        raise ProjectionBehind(projection=projection, shown=shown, behind=behind)


S = TypeVar("S")
SWITCH_TIMEOUT: Final = 5.0
PAUSE_SECONDS: Final = 0.05
NAME_BYTES_MAX: Final = 63
_NAMES: Final = "letters, digits and _, as tables are called"


def event_key(event: Any) -> str | None:
    """Return an event's key."""
    key: str | None = event.key
    return key


class Projection(Generic[S]):
    """A read model: each row is the fold by *evolve* of the events of a key.

    The table is `{name}_v{version}`. Each row has the positions up to which it is folded; rows, positions and
    checkpoint are written in one transaction, as a set: a replay writes nothing, and readers never see an earlier state
    again. The view `{name}` shows the version in use: another is built beside it, and shown by `switch`.

    Events of one key come in order within a partition. If a row has events of several partitions, they come in any
    order, and the fold must not depend on it.

    Args:
        name: The name of the view, and with the version that of the table and the processor.
        state: A dataclass or `msgspec.Struct`; each field is a column. The state before the first event is made without
            arguments, or by *initial*.
        evolve: Takes a state and an event, and returns the state after it; None: the row is deleted. It must have no
            side effects.
        key: Returns the key of an event's row, None: the event belongs to no row. Its return annotation declares the
            key's columns: a NamedTuple, or one simple type, whose column is `key`. By default the event's key. If it
            raises, the event fails like one that cannot be folded.
        version: Raise it whenever *evolve*, *key* or the columns change.
        initial: Returns the state before the first event.

    Raises:
        BadParameter: the state or the key cannot be columns, the name cannot be a table's, or a function does not
            accept its arguments.
    """

    def __init__(
        self,
        name: str,
        state: type[S],
        evolve: Callable[[S, Any], S | None],
        *,
        key: Callable[[Any], Any] = event_key,
        version: int = 1,
        initial: Callable[[], S] | None = None,
    ) -> None:
        check_kind("name", name, str, _NAMES)
        if not name.isidentifier():
            raise BadParameter(parameter="name", value=name, allowed=_NAMES)
        check_count("version", version)
        if len(f"{name}_v{version}".encode()) > NAME_BYTES_MAX:
            allowed = (
                f"up to {NAME_BYTES_MAX} bytes with `_v{version}` behind it, as names of tables have in PostgreSQL"
            )
            raise BadParameter(parameter="name", value=name, allowed=allowed)
        check_function("evolve", evolve, "state", "event", is_async=False)
        check_function("key", key, "event", is_async=False)
        check_kind("state", state, type, "a dataclass or a msgspec.Struct")
        check_function("initial", state if initial is None else initial)
        keys, columns = list_key_columns(key), list_state_columns(state)
        _check_names([column.name for column in (*keys, *columns)])
        self.name = name
        self.version = version
        self._key = key
        self._key_types = list_key_types(keys)
        self.table = Table(self.processor, name, keys, columns, state)
        is_flat = all(column.kind != "json" for column in columns)
        self.fold = Fold(
            state if initial is None else initial, evolve, partial(find_wrong_state, columns, state), is_flat
        )

    @property
    def processor(self) -> str:
        """The name of its processor, and of its table: each version has its own."""
        return f"{self.name}_v{self.version}"

    def find_key(self, event: Any) -> Key | None:
        """Return the key of an event's row, with the values of its columns; None: the event belongs to no row.

        Raises:
            BadParameter: the key does not match the annotation of its function.
        """
        found = self._key(event)
        if found is None:
            return None
        return make_key(self._key_types, found if isinstance(found, tuple) else (found,))

    def local(self, source: Source, database: str | Connect, **options: Any) -> "LocalProcessor":
        """Return a processor that keeps the rows up to date, in this process; *options* are those of `LocalProcessor`.

        Processors that share the work by `leases` fold one after the other, and read the rows each time.

        Raises:
            ProjectionNotFound: its checkpoint exists, and its table no longer does.
        """
        from penstock.processing.runners.local import LocalProcessor

        keyed = KeyedSource(source, self.find_key)
        handler = self._handler(database, is_shared=options.get("leases") is not None)
        return LocalProcessor(handler, keyed, **options)

    def inline(self, source: Source, database: str | Connect, **options: Any) -> "InlineProcessor":
        """Return a processor that runs step by step, for tests; *options* are those of `InlineProcessor`."""
        from penstock.processing.runners.inline import InlineProcessor

        keyed = KeyedSource(source, self.find_key)
        return InlineProcessor(self._handler(database), keyed, **options)

    def switch(self, database: str | Connect, *, timeout: float = SWITCH_TIMEOUT, even_if_behind: bool = False) -> None:
        """Make the view show this version, atomically.

        It waits until the version is built as far as the shown version is now.

        Args:
            database: The database of both versions.
            timeout: Seconds to wait: of two versions that follow a feed, one is always slightly behind.
            even_if_behind: True: show it at once, even if it is behind.

        Raises:
            ProjectionNotFound: the version has no table in the database.
            ProjectionBehind: the version is behind; names the tranches.
            BadParameter: it is built with other columns; or a table or a view that is not its own has its name.
        """
        check_seconds("timeout", timeout, zero=True)
        connect, not_found = connector(database), ProjectionNotFound(projection=self.processor, path="the database")
        if is_missing(database):
            raise not_found
        with transaction(connect) as connection:
            if not self.table.exists(connection):
                raise not_found
            shown = self.table.find_shown_table(connection)
        if shown not in (None, self.processor) and not even_if_behind:
            self._await_built(connect, shown, timeout)
        with transaction(connect) as connection:
            self.table.switch(connection)

    def _await_built(self, connect: Connect, shown: str, timeout: float) -> None:
        from penstock.processing.checkpoints.database import DatabaseCheckpoints

        own, deadline = DatabaseCheckpoints(connect, self.processor), time.monotonic() + timeout
        there = find_built_positions(DatabaseCheckpoints(connect, shown))
        while True:
            try:
                return check_built(self.processor, find_built_positions(own), shown, there)
            except ProjectionBehind:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(PAUSE_SECONDS)

    def _handler(self, database: str | Connect, *, is_shared: bool = False) -> "Transactional":
        from penstock.processing.checkpoints.database import DatabaseCheckpoints
        from penstock.processing.together import Transactional

        connect = connector(database)
        checkpoints = DatabaseCheckpoints(connect, self.processor)
        positions = checkpoints.positions()
        with transaction(connect) as connection:
            self.table.create(connection, positions)
        folding = ProjectionHandler(self.table, self.fold, is_shared=is_shared)
        return Transactional(connect, folding, checkpoints, is_idempotent=True, ended=folding.end_call)


def _check_names(names: Sequence[str]) -> None:
    for name, count in Counter(name.lower() for name in names).items():
        if count > 1 or name.startswith("penstock_"):
            allowed = "columns of different names in key and state, none of which begins with penstock_"
            raise BadParameter(parameter="state", value=name, allowed=allowed)
    for name in names:
        if len(name.encode()) > NAME_BYTES_MAX:
            allowed = f"names of up to {NAME_BYTES_MAX} bytes, as PostgreSQL has of columns, in key and state"
            raise BadParameter(parameter="state", value=name, allowed=allowed)
