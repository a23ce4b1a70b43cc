"""Translates errors of the database to errors and advice of the outbox.

Other errors are passed on as the driver has raised them, because the service handles the same errors for its own
statements.
"""

from typing import Final

from penstock.errors import DatabaseUnsuitable, SnapshotOutdated

_HUB_MISSING: Final = "there is no table penstock_event_type here: the hub's tables are not in this database"
_HUB_OLDER: Final = "the hub's tables in this database are those of an older Penstock"
_OUTBOX_MISSING: Final = (
    "there is no table penstock_outbox here: penstock.outbox.create(connection) creates it, and so does the hub"
)
_BUSY: Final = (
    "Another transaction is writing. If this came at once and not after the connection's timeout, then this "
    "transaction began as a read: begin it with BEGIN IMMEDIATE."
)
_DENIED: Final = (
    "Publishing needs: GRANT INSERT ON penstock_outbox TO role; "
    "GRANT SELECT (id, name, definition, fingerprint) ON penstock_event_type TO role; "
    "GRANT SELECT (event_type_id) ON penstock_partition TO role;"
)


def explain(error: Exception) -> None:
    """Raise an error of Penstock if the outbox can explain the driver's *error*, or add a note with advice to it.

    Raises:
        DatabaseUnsuitable: the tables of the outbox or the hub are missing here, or are those of an older Penstock.
        SnapshotOutdated: a SQLite transaction began as a read, and another one has written since.
    """
    causes = _list_causes(error)
    if table := next(filter(None, map(_find_missing_table, causes)), None):
        missing = _OUTBOX_MISSING if "outbox" in table else _HUB_MISSING
        raise DatabaseUnsuitable.of("schema-missing", missing, table=table) from error
    if any(map(_lacks_fingerprints, causes)):
        raise DatabaseUnsuitable.of("schema-missing", _HUB_OLDER, table="penstock_event_type") from error
    names = {getattr(cause, "sqlite_errorname", None) for cause in causes}
    if "SQLITE_BUSY_SNAPSHOT" in names:
        raise SnapshotOutdated from error
    if "SQLITE_BUSY" in names:
        error.add_note(_BUSY)
    if "42501" in {_sqlstate(cause) for cause in causes}:
        error.add_note(_DENIED)


def _list_causes(error: BaseException) -> list[BaseException]:
    """Return *error* and the errors that it wraps: SQLAlchemy keeps the driver's error in `orig`, Django chains it."""
    causes: list[BaseException] = []
    found: BaseException | None = error
    while found is not None and found not in causes:
        causes.append(found)
        found = getattr(found, "orig", None) or found.__cause__
    return causes


def _find_missing_table(error: BaseException) -> str | None:
    text = str(error)
    undefined = _sqlstate(error) == "42P01" or text.startswith("no such table: ")
    names = (name for name in ("penstock_event_type", "penstock_outbox", "penstock_partition") if name in text)
    return next(names, None) if undefined else None


def _lacks_fingerprints(error: BaseException) -> bool:
    text = str(error)
    return "fingerprint" in text and (_sqlstate(error) == "42703" or text.startswith("no such column: "))


def _sqlstate(error: BaseException) -> str | None:
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
