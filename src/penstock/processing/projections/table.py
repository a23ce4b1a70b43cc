"""The rows of a projection, in SQLite or PostgreSQL: read and written as sets, each row with its positions."""

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from penstock.client.log.cursor_statements import CONNECTIONS, parameter_mark, use_plain_rows
from penstock.errors import BadParameter, ProjectionNotFound
from penstock.processing.engine.tranche import Position
from penstock.processing.projections.columns import (
    Column,
    Kind,
    check_declared,
    declare_columns,
    decode_state,
    encode_value,
)

Key: TypeAlias = tuple[Any, ...]
POSITION: Final = "penstock_position"
DELETED: Final = "penstock_deleted"
NOWHERE: Final[Mapping[str, Position]] = MappingProxyType({})
_TYPES: Final[Mapping[Kind, tuple[str, str]]] = {
    "integer": ("INTEGER", "bigint"),
    "real": ("REAL", "double precision"),
    "text": ("TEXT", "text"),
    "boolean": ("INTEGER BOOLEAN", "boolean"),
    "bytes": ("BLOB", "bytea"),
    "time": ("TEXT TIME", "timestamp with time zone"),
    "date": ("TEXT DATE", "date"),
    "decimal": ("TEXT DECIMAL", "numeric"),
    "json": ("TEXT JSON", "json"),  # Not jsonb, which sorts keys: a fold may go by their order.
}
"""In SQLite the first word is the storage type, and the second the kind of value, so that changes are detected."""
_GRANTS: Final = """
    SELECT format('GRANT %%s ON %%s TO %%s', a.privilege_type, %s::text,
                  CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END)
           || CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
    FROM pg_class AS c, aclexplode(c.relacl) AS a
    WHERE c.oid = to_regclass(%s) AND a.grantee <> c.relowner"""
"""The query for statements that restore the grants on a view."""
_OTHER_COLUMNS: Final = "42P16"
_DEPENDED_ON: Final = "2BP01"
_RETURNED: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    "boolean": bool,
    "date": lambda value: value if isinstance(value, dt.date) else dt.date.fromisoformat(value),
}


class Row(NamedTuple):
    """One row."""

    state: Any
    """The state; None: the row is deleted."""
    positions: dict[str, int]
    """By line: the next index. Events below it are folded in."""


class Table:
    """The table of one version of a projection, and the view that shows it.

    Deleted rows stay in the table, and are not in the view: else a repeated event would restore a deleted row.
    """

    def __init__(self, name: str, view: str, key: Sequence[Column], columns: Sequence[Column], state: Any) -> None:
        self.name = name
        self.view = view
        self.key = key
        self.columns = columns
        self.state = state

    def create(self, connection: Any, positions: Mapping[str, Position] = NOWHERE) -> None:
        """Create the table, and the view if there is none of its name.

        Args:
            connection: To the database.
            positions: The positions of its checkpoint. With any, a missing table is an error, since events are lost.

        Raises:
            ProjectionNotFound: the table is missing, although there are positions.
            BadParameter: the table has other columns, or columns of other types; or a table or view that is not the
                projection's has the view's name.
        """
        is_sqlite = _is_sqlite(connection)
        if not is_sqlite:  # Where several begin at once: IF NOT EXISTS alone does not wait.
            _run(connection, "SELECT pg_advisory_xact_lock(hashtext(%s))", [self.view], finds=False)
        if positions and not self.exists(connection):
            raise ProjectionNotFound.of(
                "projection-gone", projection=self.name, path="the database", positions=dict(positions)
            )
        types = [f'"{column.name}" {_find_sql_type(column.kind, is_sqlite)}' for column in (*self.key, *self.columns)]
        types[: len(self.key)] = [f"{text} NOT NULL" for text in types[: len(self.key)]]
        flag = "INTEGER NOT NULL" if is_sqlite else "boolean NOT NULL"
        own = [f"{DELETED} {flag}", f"{POSITION} TEXT NOT NULL", f"PRIMARY KEY ({_join_names(self.key)})"]
        _run(connection, f"CREATE TABLE IF NOT EXISTS {_quote(self.name)} ({', '.join(types + own)})")
        self._check_columns(connection)
        if self.find_shown_table(connection) is None:
            self._check_view(connection)
            self._show(connection)

    def lock(self, connection: Any) -> None:
        """Lock the table until the end of this transaction, which must not have read or written yet.

        The transaction then reads the changes of earlier owners. In SQLite every `transaction` is such a lock.
        """
        if _is_sqlite(connection):
            return
        # Else, with repeatable reads by default, it would read the rows from before the wait.
        _run(connection, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        _run(connection, "SELECT pg_advisory_xact_lock(hashtext(%s))", [self.name], finds=False)

    def exists(self, connection: Any) -> bool:
        """Return whether the table exists."""
        if _is_sqlite(connection):
            return bool(_run(connection, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [self.name]))
        return _run(connection, "SELECT to_regclass(%s) IS NOT NULL", [_quote(self.name)]) == [(True,)]

    def switch(self, connection: Any) -> None:
        """Make the view show this table; grants on the view are preserved.

        Raises:
            BadParameter: the table has other columns, or other types; or a table or view that is not the projection's
                has the view's name; or other views depend on a column that is removed or moved.
        """
        self._check_columns(connection)
        self._check_view(connection)
        self.find_shown_table(connection)
        if _is_sqlite(connection):
            _run(connection, f"DROP VIEW IF EXISTS {_quote(self.view)}")
            self._show(connection)
        elif not self._replace_view(connection):
            grants = _run(connection, _GRANTS, [_quote(self.view)] * 2)
            self._drop_view(connection)
            self._show(connection)
            for (grant,) in grants:
                _run(connection, grant)

    def find_shown_table(self, connection: Any) -> str | None:
        """Return the name of the table that the view shows; None: there is no view.

        Raises:
            BadParameter: the view is not a projection's.
        """
        if _is_sqlite(connection):
            found = _run(connection, "SELECT sql FROM sqlite_master WHERE type = 'view' AND name = ?", [self.view])
        else:
            found = _run(connection, "SELECT pg_get_viewdef(to_regclass(%s))", [_quote(self.view)])
        if not found or not found[0][0]:
            return None
        table = re.search(rf'\bFROM\s+(?:\S+\.)?"?({self.view}_v[0-9]+)\b', found[0][0])  # A column may be called so.
        if table is None:
            raise self._make_name_error("view")
        return table[1]

    def find_current(
        self, connection: Any, key: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any] | None, Mapping[str, int]]:
        """Return the columns of a row as the database has them, None if it is deleted or missing; and its positions.

        Raises:
            BadParameter: *key* does not have the columns of the key.
        """
        names = self.list_key_names(connection)
        if sorted(key) != names:
            raise BadParameter(parameter="key", value=", ".join(key), allowed=f"the columns of the key: {names}")
        is_sqlite = _is_sqlite(connection)
        wanted = " AND ".join(f"{_quote(name)} = {'?' if is_sqlite else '%s'}" for name in names)
        cursor = use_plain_rows(connection.cursor())
        values = [
            encode_value("date" if isinstance(key[name], dt.date) else "text", key[name], is_sqlite=is_sqlite)
            for name in names
        ]
        cursor.execute(f"SELECT * FROM {_quote(self.name)} WHERE {wanted}", values)  # noqa: S608 - Likewise.
        found = cursor.fetchone()
        if found is None:
            return None, {}
        columns = dict(zip((column[0] for column in cursor.description), found, strict=True))
        is_deleted, positions = columns.pop(DELETED), msgspec.json.decode(columns.pop(POSITION))
        return None if is_deleted else columns, positions

    def find(self, connection: Any, keys: Iterable[Key]) -> dict[Key, Row]:
        """Return the existing rows of *keys*."""
        wanted = list(keys)
        if not wanted:
            return {}
        is_sqlite, width = _is_sqlite(connection), len(self.key)
        selected = [f"{_quote(self.name)}.{_quote(column.name)}" for column in self.key]
        selected += [_select_column(column, is_sqlite) for column in self.columns]
        text = f"SELECT {', '.join([*selected, DELETED, POSITION])} FROM {_quote(self.name)}"  # noqa: S608 - Of checked names.
        if is_sqlite:
            values = ", ".join(f"json_extract(value, '$[{at}]')" for at in range(width))
            text += f" WHERE ({_join_names(self.key)}) IN (SELECT {values} FROM json_each(?))"  # noqa: S608 - Likewise.
            parameters: list[Any] = [msgspec.json.encode(wanted).decode()]
        else:
            arrays = ", ".join(f"%s::{_find_sql_type(column.kind, is_sqlite)}[]" for column in self.key)
            text += f" JOIN unnest({arrays}) AS wanted ({_join_names(self.key)}) USING ({_join_names(self.key)})"
            parameters = [list(values) for values in zip(*wanted, strict=True)]
        return {self._to_key(row[:width]): self._to_row(row[width:]) for row in _run(connection, text, parameters)}

    def list_all(self, connection: Any) -> dict[Key, Row]:
        """Return all rows, deleted ones too."""
        width, is_sqlite = len(self.key), _is_sqlite(connection)
        selected = [
            *(_quote(column.name) for column in self.key),
            *(_select_column(each, is_sqlite) for each in self.columns),
        ]
        text = f"SELECT {', '.join([*selected, DELETED, POSITION])} FROM {_quote(self.name)}"  # noqa: S608 - Likewise.
        return {self._to_key(row[:width]): self._to_row(row[width:]) for row in _run(connection, text)}

    def store(self, connection: Any, rows: Mapping[Key, Row]) -> None:
        """Store rows, and replace those with the same keys."""
        if not rows:
            return
        is_sqlite = _is_sqlite(connection)
        columns = [*self.key, *self.columns]
        names = f"{_join_names(columns)}, {DELETED}, {POSITION}"
        settings = [f"{_quote(column.name)} = excluded.{_quote(column.name)}" for column in self.columns]
        settings += [f"{name} = excluded.{name}" for name in (DELETED, POSITION)]
        conflict = f"ON CONFLICT ({_join_names(self.key)}) DO UPDATE SET {', '.join(settings)}"
        values = [self._to_values(key, row, is_sqlite=is_sqlite) for key, row in rows.items()]
        head = f"INSERT INTO {_quote(self.name)} ({names})"
        if is_sqlite:
            marks = ", ".join("?" * len(values[0]))
            connection.executemany(f"{head} VALUES ({marks}) {conflict}", values)
            return
        types = [*(_find_sql_type(column.kind, is_sqlite) for column in columns), "boolean", "text"]
        arrays = ", ".join(f"%s::{'text' if kind == 'json' else kind}[]" for kind in types)
        selected = ", ".join(f"c{at}::{kind}" for at, kind in enumerate(types))
        given = ", ".join(f"c{at}" for at in range(len(types)))
        text = f"{head} SELECT {selected} FROM unnest({arrays}) AS given ({given}) {conflict}"  # noqa: S608 - Likewise.
        _run(connection, text, [list(column) for column in zip(*values, strict=True)], finds=False)

    def _check_columns(self, connection: Any) -> None:
        is_sqlite = _is_sqlite(connection)
        types = {column.name: _find_sql_type(column.kind, is_sqlite) for column in (*self.key, *self.columns)}
        wanted = declare_columns(types, sorted(column.name for column in self.key))
        check_declared(wanted, self._declare_found_columns(connection), f"a table {self.name}")

    def list_key_names(self, connection: Any) -> list[str]:
        """Return the names of the columns of the key, sorted, as the table in the database has them."""
        return sorted(name for name, _, is_key in self._list_columns(connection) if is_key)

    def _declare_found_columns(self, connection: Any) -> dict[str, str]:
        """Return the declarations of the table's columns for keys and states, with the key's columns sorted."""
        types = {name: kind for name, kind, _ in self._list_columns(connection) if name not in (DELETED, POSITION)}
        return declare_columns(types, self.list_key_names(connection))

    def _list_columns(self, connection: Any) -> list[Any]:
        """Return the name of each column of the table, its type, and whether it is part of the key."""
        if _is_sqlite(connection):
            return _run(connection, "SELECT name, type, pk > 0 FROM pragma_table_info(?)", [self.name])
        text = (
            "SELECT attname, format_type(atttypid, atttypmod), coalesce(attnum = ANY (indkey), false)"
            " FROM pg_attribute LEFT JOIN pg_index ON indrelid = attrelid AND indisprimary"
            " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
        return _run(connection, text, [_quote(self.name)])

    def _check_view(self, connection: Any) -> None:
        """Raise BadParameter if a table, or another object that prevents the view, has its name."""
        if _is_sqlite(connection):
            alike = "SELECT 1 FROM sqlite_master WHERE type = 'view' AND name = ? COLLATE NOCASE AND name <> ?"
            if _run(connection, alike, [self.view, self.view]):  # It would be one with that, and their tables too.
                raise self._make_name_error("view")
            text = "SELECT 1 FROM sqlite_master WHERE type IN ('table', 'index') AND name = ? COLLATE NOCASE"
            found = _run(connection, text, [self.view])
        else:
            text = "SELECT 1 FROM pg_class WHERE oid = to_regclass(%s) AND relkind NOT IN ('v', 'm')"
            found = _run(connection, text, [_quote(self.view)])
        if found:
            raise self._make_name_error("table")

    def _make_name_error(self, what: str) -> BadParameter:
        allowed = (
            f"one that the database has no {what} of: the view that shows the rows is called so. Rename that {what}, "
            "or the projection"
        )
        return BadParameter(parameter="name", value=self.view, allowed=allowed)

    def _replace_view(self, connection: Any) -> bool:
        """Replace PostgreSQL's view by this table's; return False if the table lacks columns of it."""
        try:
            with connection.transaction():
                self._show(connection, "CREATE OR REPLACE VIEW")
        except Exception as error:
            if getattr(error, "sqlstate", None) != _OTHER_COLUMNS:
                raise
            return False
        return True

    def _drop_view(self, connection: Any) -> None:
        try:
            _run(connection, f"DROP VIEW {_quote(self.view)}")
        except Exception as error:
            if getattr(error, "sqlstate", None) != _DEPENDED_ON:
                raise
            allowed = (
                "a view on which no other depends, since its columns change: drop those, switch, and make them again. "
                f"{' '.join(str(error).split())}"
            )
            raise BadParameter(parameter="name", value=self.view, allowed=allowed) from error

    def _show(self, connection: Any, create: str = "CREATE VIEW") -> None:
        names, gone = _join_names((*self.key, *self.columns)), f"NOT {DELETED}"
        text = f"{create} {_quote(self.view)} AS SELECT {names} FROM {_quote(self.name)} WHERE {gone}"  # noqa: S608 - Likewise.
        _run(connection, text)

    def _to_key(self, key: Sequence[Any]) -> Key:
        """Return a key with the types of events: SQLite has neither booleans nor dates."""
        return tuple(
            _RETURNED[column.kind](value) if column.kind in _RETURNED else value
            for column, value in zip(self.key, key, strict=True)
        )

    def _to_row(self, values: Sequence[Any]) -> Row:
        *state, is_deleted, positions = values
        found = None if is_deleted else decode_state(self.columns, state, self.state)
        return Row(found, msgspec.json.decode(positions))

    def _to_values(self, key: Key, row: Row, *, is_sqlite: bool) -> list[Any]:
        state = [None if row.state is None else getattr(row.state, column.name) for column in self.columns]
        columns = zip((*self.key, *self.columns), (*key, *state), strict=True)
        values = [encode_value(column.kind, value, is_sqlite=is_sqlite) for column, value in columns]
        # In one order, so that the same rows are the same bytes from any writer.
        positions = msgspec.json.encode(row.positions, order="sorted").decode()
        return [*values, row.state is None, positions]


def _is_sqlite(connection: Any) -> bool:
    return parameter_mark(connection, CONNECTIONS) == "?"


def _run(connection: Any, text: str, parameters: Sequence[Any] = (), *, finds: bool | None = None) -> list[Any]:
    cursor = use_plain_rows(connection.cursor())
    cursor.execute(text, parameters)
    has_rows = cursor.description is not None if finds is None else finds
    return list(cursor.fetchall()) if has_rows else []


def _select_column(column: Column, is_sqlite: bool) -> str:
    name = _quote(column.name)
    if column.kind == "json" and not is_sqlite:
        return f"{name}::text"
    # Else drivers make times of the session's zone, in which one of the first year, or of the last, may be of none.
    return f"{name} AT TIME ZONE 'UTC'" if column.kind == "time" and not is_sqlite else name


def _find_sql_type(kind: Kind, is_sqlite: bool) -> str:
    return _TYPES[kind][0 if is_sqlite else 1]


def _join_names(columns: Iterable[Column]) -> str:
    return ", ".join(_quote(column.name) for column in columns)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class CurrentRow(NamedTuple):
    """A row of the version of a projection that its view shows, and how far it is folded."""

    columns: Mapping[str, Any] | None
    """The columns of the key and of the state, as the driver returns them. None: there is no such row, or its fold has
    deleted it."""
    positions: Mapping[str, int]
    """By tranche of a feed, `order.placed/3`, the offset of the next event to be folded; by stream, if indices
    are by stream. Empty: no event was folded into it."""


def current_row(connection: Any, projection: str, /, **key: Any) -> CurrentRow:
    """Return a row of a projection and how far it is folded, from the table that its view shows now.

    The table of an unused version no longer changes once its processor has ended. So a handler that waits until a row
    includes its event has to read it here, and not in the table of one version. A deleted row has positions, too, which
    the view does not show.

    Args:
        connection: A `sqlite3` or `psycopg` connection to the projection's database.
        projection: The name of the projection, as its view is called.
        key: The columns of its key: `key="Ada"`, or `customer="Ada", size="large"`.

    Raises:
        ProjectionNotFound: there is no such view.
        BadParameter: it is another kind of view; or the columns are not those of the key.
    """
    shown = Table(projection, projection, (), (), None).find_shown_table(connection)
    if shown is None:
        raise ProjectionNotFound(projection=projection, path="the database")
    return CurrentRow(*Table(shown, projection, (), (), None).find_current(connection, key))
