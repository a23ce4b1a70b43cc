"""A versioned fold of events into the rows of a table."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock.core.group_parking import is_before
from penstock.errors import BadParameter, ProjectionBehind, ProjectionNotFound
from penstock.processing.checkpoints.checkpoint import Checkpoints
from penstock.processing.connecting import Connect, connector, is_missing, transaction
from penstock.processing.engine.tranche import Position
from penstock.processing.parameters import check_count, check_function, check_kind, check_seconds
from penstock.processing.projections.columns import key_columns, key_of_values, key_types, state_columns, wrong_state
from penstock.processing.projections.fold import Fold
from penstock.processing.projections.table import Key, Table
from penstock.processing.sources.source import Source

if TYPE_CHECKING:
    from penstock.processing.runners.inline import InlineProcessor
    from penstock.processing.runners.local import LocalProcessor
    from penstock.processing.together import Transactional


def built_to(checkpoints: Checkpoints) -> Mapping[str, Position]:
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


# Executors of Spark import this module: runners in this process are imported on use, since executors may lack them.

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
        keys, columns = key_columns(key), state_columns(state)
        _check_names([column.name for column in (*keys, *columns)])
        self.name = name
        self.version = version
        self._key = key
        self._key_types = key_types(keys)
        self.table = Table(self.processor, name, keys, columns, state)
        is_flat = all(column.kind != "json" for column in columns)
        self.fold = Fold(state if initial is None else initial, evolve, partial(wrong_state, columns, state), is_flat)

    @property
    def processor(self) -> str:
        """The name of its processor, and of its table: each version has its own."""
        return f"{self.name}_v{self.version}"

    def key_of(self, event: Any) -> Key | None:
        """Return the key of an event's row, with the values of its columns; None: the event belongs to no row.

        Raises:
            BadParameter: the key does not match the annotation of its function.
        """
        found = self._key(event)
        if found is None:
            return None
        return key_of_values(self._key_types, found if isinstance(found, tuple) else (found,))

    def local(self, source: Source, database: str | Connect, **options: Any) -> "LocalProcessor":
        """Return a processor that keeps the rows up to date, in this process; *options* are those of `LocalProcessor`.

        Processors that share the work by `leases` fold one after the other, and read the rows each time.

        Raises:
            ProjectionNotFound: its checkpoint exists, and its table no longer does.
        """
        from penstock.processing.projections.fold import KeyedSource
        from penstock.processing.runners.local import LocalProcessor

        keyed = KeyedSource(source, self.key_of)
        handler = self._handler(database, is_shared=options.get("leases") is not None)
        return LocalProcessor(handler, keyed, **options)

    def inline(self, source: Source, database: str | Connect, **options: Any) -> "InlineProcessor":
        """Return a processor that runs step by step, for tests; *options* are those of `InlineProcessor`."""
        from penstock.processing.projections.fold import KeyedSource
        from penstock.processing.runners.inline import InlineProcessor

        keyed = KeyedSource(source, self.key_of)
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
            shown = self.table.shown(connection)
        if shown not in (None, self.processor) and not even_if_behind:
            self._await_built(connect, shown, timeout)
        with transaction(connect) as connection:
            self.table.switch(connection)

    def _await_built(self, connect: Connect, shown: str, timeout: float) -> None:
        from penstock.processing.checkpoints.database import DatabaseCheckpoints
        from penstock.processing.projections.projection import built_to, check_built

        own, deadline = DatabaseCheckpoints(connect, self.processor), time.monotonic() + timeout
        there = built_to(DatabaseCheckpoints(connect, shown))
        while True:
            try:
                return check_built(self.processor, built_to(own), shown, there)
            except ProjectionBehind:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(PAUSE_SECONDS)

    def _handler(self, database: str | Connect, *, is_shared: bool = False) -> "Transactional":
        from penstock.processing.checkpoints.database import DatabaseCheckpoints
        from penstock.processing.projections.folding import Folding
        from penstock.processing.together import Transactional

        connect = connector(database)
        checkpoints = DatabaseCheckpoints(connect, self.processor)
        positions = checkpoints.positions()
        with transaction(connect) as connection:
            self.table.create(connection, positions)
        folding = Folding(self.table, self.fold, is_shared=is_shared)
        return Transactional(connect, folding, checkpoints, is_idempotent=True, ended=folding.ended)


def _check_names(names: Sequence[str]) -> None:
    for name, count in Counter(name.lower() for name in names).items():
        if count > 1 or name.startswith("penstock_"):
            allowed = "columns of different names in key and state, none of which begins with penstock_"
            raise BadParameter(parameter="state", value=name, allowed=allowed)
    for name in names:
        if len(name.encode()) > NAME_BYTES_MAX:
            allowed = f"names of up to {NAME_BYTES_MAX} bytes, as PostgreSQL has of columns, in key and state"
            raise BadParameter(parameter="state", value=name, allowed=allowed)
