"""Tells what a failure of PostgreSQL means to a query that reads a MessageDB."""

import psycopg

from penstock.errors import DatabaseUnavailable, PenstockError
from penstock.spark.options import bad_option

_NOT_INSTALLED = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.InvalidSchemaName,
)


def meaning(error: psycopg.Error, schema: str) -> PenstockError | psycopg.Error:
    """Return what *error* means where MessageDB was expected in *schema*.

    BadParameter where it is not there; DatabaseUnavailable where it can be asked again; any other error as it is.
    """
    reason = " ".join(str(error).split())
    if isinstance(error, _NOT_INSTALLED):
        return bad_option("schema", schema, f"one in which MessageDB is installed; the database says: {reason}")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return DatabaseUnavailable(reason=reason)
    return error
