"""Databases of a hub: the port that the hub uses, and its implementations for SQLite and PostgreSQL."""

from pathlib import Path

from penstock.core.database_url import plain_url
from penstock.errors import BadParameter
from penstock.storage.store import Store, Tx

__all__ = ["Store", "Tx", "open_store"]


def open_store(url: str, *, is_hub: bool = True) -> Store:
    """Return the store at *url*; nothing is connected yet. Commands that are no hub say so: see `Store.find_hub`.

    `sqlite:///penstock.db` is a file relative to the working directory, `sqlite:////var/lib/penstock.db` an absolute
    one; `postgresql://user@host/database` takes whatever libpq does, and
    `postgresql+psycopg://`, as SQLAlchemy writes it, is the same. `:memory:` is no file: each connection would have
    a database of its own.

    Raises:
        BadParameter: the URL names no database that Penstock knows.
        ModuleNotFoundError: psycopg is missing; says what to install.
    """
    url = plain_url(url)
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and rest not in ("/", "/:memory:"):
        from penstock.storage.sqlite.store import SqliteStore

        return SqliteStore(Path(rest[1:]))
    if scheme in ("postgresql", "postgres"):
        try:
            from penstock.storage.postgres.store import PostgresStore
        except ModuleNotFoundError as error:
            missing = "PostgreSQL needs psycopg: pip install 'penstock-hub[postgres]'"
            raise ModuleNotFoundError(missing, name=error.name) from error
        return PostgresStore(url) if is_hub else PostgresStore(url, "penstock")
    raise BadParameter(parameter="database", value=url, allowed="sqlite:///FILE or postgresql://USER@HOST/DATABASE")
