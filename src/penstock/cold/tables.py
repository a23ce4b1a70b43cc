"""Tables of a cold tier: the files of each event type as a Delta table, whose log lies beside them.

The log names files, their sizes and numbers of events. It has no statistics of columns, since those of keys would
outlive their erasure; engines take them from the files. `docs/reference/cold-tier.md` says how the tables are read.

Invariants:
    A commit is made of a list of files that was read after the version before it. So commits of several hubs never
    bring back a file that a later list has left out.
    A table has each file once, and those members of `typed` that have one type in all files.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from penstock.cold.storage import ColdStorage
from penstock.core.log.arrow import SCHEMA
from penstock.typed import RESCUED, TYPED
from penstock.typed.columns import list_of, map_of

LOG: Final = "_delta_log"
"""The folder of a table's log, in that of the event type."""
CHECKPOINT_COMMITS: Final = 20
"""Commits between checkpoints. A checkpoint has the whole table, so that readers need not read all commits."""
RECHECK_SECONDS: Final = 3_600.0
"""After so long the tables themselves are looked at again, in case others have changed or deleted them."""
WAIT_SECONDS: Final = 30.0
"""Seconds for which an update waits for another one of this process, which slow storage may delay."""
ATTEMPTS: Final = 10
"""Maximum number of commit attempts of an update that conflicts with others."""
_FORBIDDEN: Final = frozenset(" ,;{}()\n\t=")
"""The characters that names of columns cannot have in a Delta table that finds its columns by their names."""
_CONFLICT: Final = pa.null()
"""The type of members that have several."""
_EMPTY: Final = pa.struct([])
_ONCE: Final = CommitProperties(max_commit_retries=0)
"""For a commit that fails if another one came first."""
FindType = Callable[[str], pa.StructType | None]
"""Returns the type of the typed columns of a file, given its path; None: it has none."""


class TableFile(NamedTuple):
    """A file that counts."""

    path: str
    """Relative to the root of the cold tier."""
    size: int
    events: int


class ColdTables:
    """The tables of one cold tier. Safe to use from many threads.

    Attributes:
        failures: The number of updates of a table that failed.
    """

    def __init__(self, storage: ColdStorage) -> None:
        self._storage = storage
        self._guard = threading.Lock()
        """An update holds it."""
        self._current: dict[str, frozenset[str] | None] | None = None
        """The files of each table when it was last seen; None: they are unknown."""
        self._listed_at = 0.0
        self._types: dict[str, dict[str, pa.DataType]] = {}
        """The types of the typed columns of files, by event type and path."""
        self.failures = 0

    def find_stale(self, wanted: Mapping[str, Collection[str]]) -> Sequence[str]:
        """Return the event types whose tables may have other files than the *wanted* ones, by event type.

        The first call asks the storage which tables there are, and later ones nothing for `RECHECK_SECONDS`.

        Raises:
            ColdTierUnavailable: the storage does not answer.
        """
        now = time.monotonic()
        if self._current is None or now - self._listed_at >= RECHECK_SECONDS:
            self._listed_at = now
            folders = (each.path.split("/") for each in self._storage.list())
            self._current = {parts[0]: None for parts in folders if LOG in parts[1:2]}
        current, names = self._current, self._current.keys() | wanted.keys()
        return sorted(each for each in names if current.get(each) != frozenset(wanted.get(each, ())))

    def update(self, name: str, find_files: Callable[[], Sequence[TableFile]], find_type: FindType) -> None:
        """Have the table of an event type name exactly the files that *find_files* returns; make it if there is none.

        Members that are new are a commit before that of the files. If a member has got another type, a commit that
        leaves no files comes before.

        Raises:
            Exception: the table cannot be read or written, or others came first `ATTEMPTS` times. The table has the
                files that it had, or is on its way; a repeat goes on.
        """
        if not self._guard.acquire(timeout=WAIT_SECONDS):
            raise TimeoutError("another update has not ended yet")
        try:
            for _ in range(ATTEMPTS):
                table = self._open(name)
                files = {each.path.removeprefix(f"{name}/"): each for each in find_files()}  # After the version.
                try:
                    is_done = self._go_on(name, table, files, find_type)
                except CommitFailedError:  # Another hub came first.
                    continue
                if is_done:
                    self._current = (self._current or {}) | {name: frozenset(each.path for each in files.values())}
                    return
            raise CommitFailedError(f"others have changed the table of {name} {ATTEMPTS} times meanwhile")
        finally:
            self._guard.release()

    def _open(self, name: str) -> DeltaTable | None:
        location, options = self._storage.locate(name)
        if not DeltaTable.is_deltatable(location, options):
            return None
        return DeltaTable(location, storage_options=options)

    def _go_on(self, name: str, table: DeltaTable | None, files: Mapping[str, TableFile], find_type: FindType) -> bool:
        """Commit the next difference; return whether it was the last one."""
        types = self._types[name] = {path: each for path, each in self._types.get(name, {}).items() if path in files}

        def merge(paths: Iterable[str], first: pa.DataType = _EMPTY) -> pa.DataType:
            for path in paths:
                if path not in types:
                    found = find_type(files[path].path)
                    types[path] = _EMPTY if found is None else found
            return reduce(_merge, [types[path] for path in paths], first)

        if table is None:
            if not files:
                return True
            self._create(name, _schema_of(_select(merge(files))), [_add(*each) for each in files.items()])
            return False
        sizes = _sizes(table)
        new = [path for path in files if path not in sizes]
        gone = [path for path in sizes if path not in files]
        typed = _find_typed(table)
        if new and _select(merge(new, typed)) != typed:
            known = _select(merge(files, typed))
            if _select(_merge(typed, known)) != known:  # A member that the table has cannot stay.
                schema = Schema.from_arrow(_schema_of(_select(merge(files))))
                table.create_write_transaction([], "overwrite", schema, commit_properties=_ONCE)
                return False
            if known != typed:
                added = [each for each in Schema.from_arrow(_schema_of(known)).fields if each.name in (TYPED, RESCUED)]
                table.alter.add_columns(added, commit_properties=_ONCE)
                return False
        if new or gone:
            now = time.time_ns() // 1_000_000
            removed = [RemoveAction(path, True, now, sizes[path], {}) for path in gone]
            actions: list[AddAction | RemoveAction] = [*removed, *(_add(path, files[path]) for path in new)]
            table.create_write_transaction(actions, "append", table.schema(), commit_properties=_ONCE)
        return True

    def _create(self, name: str, schema: pa.Schema, added: Sequence[AddAction]) -> None:
        location, options = self._storage.locate(name)
        create_table_with_add_actions(
            location,
            Schema.from_arrow(schema),
            [*added],
            mode="ignore",  # Another hub may have made it meanwhile.
            name=name,
            configuration={"delta.checkpointInterval": f"{CHECKPOINT_COMMITS}"},
            storage_options=options,
            commit_properties=_ONCE,
        )


def _add(path: str, file: TableFile) -> AddAction:
    now = time.time_ns() // 1_000_000
    return AddAction(path, file.size, {}, now, True, json.dumps({"numRecords": file.events}))


def _sizes(table: DeltaTable) -> Mapping[str, int]:
    """Return the sizes of a table's files, by path."""
    found = pa.table(table.get_add_actions())
    return dict(zip(found["path"].to_pylist(), found["size_bytes"].to_pylist(), strict=True))


def _find_typed(table: DeltaTable) -> pa.DataType:
    """Return the type of a table's typed columns."""
    schema = pa.schema(table.schema().to_arrow())
    return schema.field(TYPED).type if TYPED in schema.names else _EMPTY


def _schema_of(typed: pa.DataType) -> pa.Schema:
    """Return the columns of a table with typed ones of a type."""
    if not typed.num_fields:
        return SCHEMA
    return pa.schema([*SCHEMA, pa.field(TYPED, typed), pa.field(RESCUED, pa.string())])


def _merge(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return a type with the members of both; of one whose types differ, `_CONFLICT`.

    >>> _merge(pa.struct({"a": pa.int64(), "b": pa.int64()}), pa.struct({"b": pa.string(), "c": pa.int64()}))
    StructType(struct<a: int64, b: null, c: int64>)
    """
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = {each.name: each.type for each in one}
        for each in other:
            fields[each.name] = _merge(fields[each.name], each.type) if each.name in fields else each.type
        return pa.struct(fields)
    if pa.types.is_list(one) and pa.types.is_list(other):
        return list_of(_merge(one.value_type, other.value_type))
    if pa.types.is_map(one) and pa.types.is_map(other):
        return map_of(_merge(one.item_type, other.item_type))
    return one if one.equals(other) else _CONFLICT


def _select(typed: pa.DataType) -> pa.DataType:
    """Return the members of a struct that a table can have: those with one type, and names that all engines can read.

    >>> _select(pa.struct({"a": pa.null(), "b": pa.int64(), "c": pa.int64(), "C": pa.int64(), "d e": pa.int64()}))
    StructType(struct<b: int64>)
    """
    fields: dict[str, Any] = {each.name: _readable(each.type) for each in typed}
    folded = Counter(name.lower() for name in fields)
    return pa.struct(
        {
            name: each
            for name, each in fields.items()
            if each is not None and name and _FORBIDDEN.isdisjoint(name) and folded[name.lower()] == 1
        }
    )


def _readable(kind: pa.DataType) -> pa.DataType | None:
    """Return the part of a type that a table can have; None: it can have nothing of it."""
    if pa.types.is_struct(kind):
        found = _select(kind)
        return found if found.num_fields else None
    if pa.types.is_list(kind):
        item = _readable(kind.value_type)
        return None if item is None else list_of(item)
    if pa.types.is_map(kind):
        item = _readable(kind.item_type)
        return None if item is None else map_of(item)
    return None if kind.equals(_CONFLICT) else kind
