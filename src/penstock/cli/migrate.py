"""`penstock migrate`: brings a database's tables up to date."""

import sys
from typing import Annotated, Final

import typer

from penstock.cli.options import DATABASE, DatabaseOption, OutputOption
from penstock.cli.streams import utf8

_REGISTRY: Final = "CREATE TABLE IF NOT EXISTS penstock_migration (number integer PRIMARY KEY, name text NOT NULL);"
_REGISTER: Final = "INSERT INTO penstock_migration VALUES"


def migrate(
    database: DatabaseOption = DATABASE,
    output: OutputOption = "text",
    print_sql: Annotated[
        bool, typer.Option("--print-sql", help="Print the SQL of all migrations, and do not touch the database.")
    ] = False,
) -> None:
    """Bring the tables up to date, and tell what was done.

    Migrations are numbered and go forward only; they run in one transaction, under a lock, so that any number of
    processes may ask for them at the same time. A database of a newer Penstock is refused. `serve` does the same when
    it starts. A SQLite file that is not there is created, in a directory that is there.
    """
    if print_sql:
        utf8(sys.stdout).write(script(database))
        return
    from penstock.cli.database import is_new, open_database
    from penstock.cli.output import print_json, say

    created = is_new(database)
    with open_database(database, create=True) as store:
        ran = list(store.migrate())
        shown = store.url
    if output == "json":
        print_json({"database": shown, "created": created, "ran": ran})
    elif ran:
        state = "is new and" if created else "is"
        say("\n".join([f"{shown} {state} up to date; this was run:", *(f"  {name}" for name in ran)]))
    else:
        say(f"{shown} is up to date; there was nothing to do.")


def script(database: str) -> str:
    """Return the SQL that makes all tables in an empty database of the kind of *database*, and registers them.

    Raises:
        BadParameter: the URL names no database that Penstock knows.
    """
    from penstock.errors import BadParameter
    from penstock.storage.postgres import POSTGRES
    from penstock.storage.sqlite import SQLITE

    scheme = database.partition("://")[0]
    dialects = {"sqlite": SQLITE, "postgresql": POSTGRES, "postgres": POSTGRES}
    if scheme not in dialects:
        allowed = "sqlite:///FILE or postgresql://USER@HOST/DATABASE"
        raise BadParameter(parameter="database", value=database, allowed=allowed)
    parts = ["BEGIN;\n\n", f"{_REGISTRY}\n\n"]
    for step in dialects[scheme].migrations:
        parts.append(f"{step.sql.strip()}\n\n")
        parts.append(f"{_REGISTER} ({step.number}, '{step.name}');\n\n")
    return "".join([*parts, "COMMIT;\n"])
