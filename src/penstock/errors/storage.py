"""Errors of the database: it is unavailable, full, or has unsuitable tables."""

from penstock.errors.root import Conflict, PenstockError, Unavailable


class DatabaseUnavailable(Unavailable):
    """The database does not answer, or not in time."""

    code = "database-unavailable"
    message = "the database cannot be used now: {reason}"


class DiskFull(Unavailable):
    """The database has no room left; nothing was written."""

    code = "disk-full"
    message = "the database has no room left, nothing was written: {reason}"


class SnapshotOutdated(Conflict):
    """A SQLite transaction that began as a read wants to write, and another one has written since."""

    code = "snapshot-outdated"
    message = "this transaction began as a read and was overtaken: SQLite never lets it write (SQLITE_BUSY_SNAPSHOT)"
    hint = "Roll back, and repeat the whole transaction with BEGIN IMMEDIATE at its beginning."


class SchemaError(PenstockError):
    """The database's tables are not those that this version works with."""

    code = "schema-error"


class SchemaMissing(SchemaError):
    """The database has no Penstock tables, or older ones."""

    code = "schema-missing"
    message = "the database is at schema version {found}, this Penstock needs {wanted}"
    hint = "Run `penstock migrate --database URL` with the URL of this database."

    found: int
    wanted: int
    table: str | None


class SchemaTooNew(SchemaError):
    """The database was migrated by a newer Penstock."""

    code = "schema-too-new"
    message = "the database is at schema version {found}, newer than the {wanted} that this Penstock knows"
    hint = "Install a newer Penstock."

    found: int
    wanted: int


class TableUnsuitable(SchemaError):
    """A table in a database of the user's is not the one of its name."""

    code = "table-unsuitable"
    message = "the table {table} is another one: it has not the columns {missing}, but {columns}"
    hint = "Another program, or another version, has made it. Have another name be used, or rename that table."

    table: str
    missing: list[str]
    """Names of columns."""
    columns: list[str]
    """The columns that the table has."""


class TableGone(SchemaError):
    """Tables that were in a database of the user's are not there any more."""

    code = "table-gone"
    message = "the tables of {tables} are not there any more: {reason}"
    hint = (
        "Somebody has dropped them, or each connection opens a database of its own, as one in memory is. What is "
        "started again makes them anew, and begins where it would with nothing kept."
    )

    tables: str
    reason: str


class EncodingUnsuitable(SchemaError):
    """The database stores text in an encoding in which events cannot be kept byte for byte."""

    code = "encoding-unsuitable"
    message = "the database's encoding is {found}, Penstock needs {wanted}"
    hint = "Use another: `CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0` makes one, SQLite any new file."

    found: str
    wanted: str
