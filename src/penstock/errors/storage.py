"""Errors of the database: it is unavailable, full, or has unsuitable tables."""

from typing import Any, ClassVar

from penstock.errors.root import Case, Conflict, PenstockError, Unavailable


class DatabaseUnavailable(Unavailable):
    """The database does not answer, or not in time."""

    code = "database-unavailable"
    message = "the database cannot be used now: {reason}"
    hint = "Repeat the request later. If it still fails, run `penstock doctor` where the hub runs."


class DiskFull(Unavailable):
    """The database has no space left; nothing was written."""

    code = "disk-full"
    message = "the database has no space left, nothing was written: {reason}"
    hint = "Free space on the disk of the database. The hub then continues by itself."


class ColdTierUnavailable(Unavailable):
    """The storage of the cold tier does not answer, or not in time; the events in the database can be read."""

    code = "cold-tier-unavailable"
    message = "the cold tier at {location} cannot be used now: {reason}"
    hint = "Repeat the request later. If it still fails, check the storage, and the hub's credentials for it."

    location: str
    """The URL of the cold tier."""


class ColdFileDamaged(PenstockError):
    """A file of the cold tier is not there, or does not hold the events that were sealed in it."""

    code = "cold-file-damaged"
    message = "{path} of the cold tier at {location} cannot be read: {reason}"
    hint = "Put the file back from a backup or an earlier version of it. `penstock cold verify` checks all files."

    location: str
    """The URL of the cold tier."""
    path: str
    """The file, relative to it."""
    reason: str
    """What is wrong with it."""


class ColdTierUnsuitable(PenstockError):
    """The database and the cold tier do not belong together."""

    code = "cold-tier-unsuitable"
    cases: ClassVar = {
        "cold-tier-missing": Case(
            "this database has events in the cold tier at {location}, and none was named",
            "Name it by `--cold`, or PENSTOCK_COLD.",
        ),
        "cold-tier-of-another": Case(
            "the cold tier at {location} belongs to another database",
            "Name another directory or prefix. If that database is lost, `penstock cold adopt` makes feeds of the "
            "files in a new one.",
        ),
        "cold-tier-lost": Case(
            "there is no cold tier at {location}, but this database has events in one",
            "Name the directory or prefix that has them; `penstock cold list` shows the files.",
        ),
        "cold-tier-absent": Case(
            "there is no cold tier to adopt at {location}: it has no file `penstock-cold-tier.json`",
            "Name the directory or prefix that has this file, beside a directory for each event type.",
        ),
        "cold-tier-present": Case(
            "this database has a cold tier already, so it cannot adopt the one at {location}",
            "Name a new database. If the two belong together, there is nothing to do: `penstock cold verify` tells.",
        ),
    }

    location: str
    """The URL of the cold tier."""


class SnapshotOutdated(Conflict):
    """A SQLite transaction that began with a read cannot write, because another transaction has written since."""

    code = "snapshot-outdated"
    message = (
        "this transaction began with a read, another one has written since: SQLite refuses its writes "
        "(SQLITE_BUSY_SNAPSHOT)"
    )
    hint = "Roll back and repeat the whole transaction, beginning with BEGIN IMMEDIATE."


class DatabaseUnsuitable(PenstockError):
    """This Penstock cannot work with the database, its tables or its encoding; or a replica is none of it."""

    code = "database-unsuitable"
    cases: ClassVar = {
        "schema-missing": Case(
            "the database is at schema version {found}, this version of Penstock needs {wanted}",
            "Run `penstock migrate --database URL` with the URL of this database.",
        ),
        "schema-too-new": Case(
            "the database is at schema version {found}, newer than {wanted}, the newest that this Penstock knows",
            "Install the version of Penstock that migrated the database, or a newer one.",
        ),
        "encoding-unsuitable": Case(
            "the encoding of the database is {found}, Penstock needs {wanted}",
            "Create another database: `CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0`; SQLite: a new file.",
        ),
        "backup-not-announced": Case(
            "the database is a backup that was made at {made_at}: consumers may have read events that it lacks",
            "Run `penstock restored` with the URL of this database, then start the hub.",
        ),
        "table-unsuitable": Case(
            "the table {table} is not Penstock's: it lacks the columns {missing} and has {columns}",
            "Another program or version created it. Configure another table name, or rename that table.",
        ),
        "replica-of-another": Case(
            "{replica} is no replica of this database: it belongs to another cluster, or is another database of it",
            "Name a physical standby of the server in --database, and the same database.",
        ),
        "replica-is-primary": Case(
            "{replica} is no replica: it is not in recovery, so it is a primary, or was promoted",
            "Name a physical standby of the server in --database, or leave --replica out.",
        ),
        "replica-denied": Case(
            "the role of the replica {replica} may not read the events: {reason}",
            "Grant SELECT on penstock_event, penstock_partition and penstock_hole to the role, on the primary.",
        ),
        "table-gone": Case(
            "the tables of {tables} no longer exist: {reason}",
            "They were dropped, or each connection opens a database of its own, as with an in-memory database. Restore "
            "them from a backup, or start the processor again: it creates them and begins as if nothing were stored.",
        ),
    }

    found: Any
    """The schema version or encoding of the database."""
    wanted: Any
    """The schema version or encoding that Penstock needs."""
    made_at: str | None
    """When the backup was made, in `backup-not-announced`."""
    table: str | None
    """The table in `table-unsuitable`, and in `schema-missing` if one is missing."""
    missing: list[str] | None
    """Names of the missing columns, in `table-unsuitable`."""
    columns: list[str] | None
    """Names of the columns that the table has, in `table-unsuitable`."""
    tables: str | None
    """What the tables of a processor are for, in `table-gone`."""
    reason: str | None
    """What the database says, in `table-gone` and `replica-denied`."""
    replica: str | None
    """The URL of a replica, without a password, in the cases of replicas."""
