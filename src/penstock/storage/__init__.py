"""Databases of a hub: the port that the hub uses, and its implementations for SQLite and PostgreSQL."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.core.database_url import plain_url, show_url
from penstock.errors import BadParameter
from penstock.storage.store import Store, Tx

if TYPE_CHECKING:
    from penstock.storage.cold.tier import ColdTier

__all__ = ["Store", "Tx", "open_store"]


def open_store(url: str, cold: str | None = None, replicas: Sequence[str] = (), *, has_tables: bool = False) -> Store:
    """Return the store at *url*; nothing is connected yet.

    `sqlite:///penstock.db` is a file relative to the working directory, `sqlite:////var/lib/penstock.db` an absolute
    one; `postgresql://user@host/database` takes whatever libpq does, and
    `postgresql+psycopg://`, as SQLAlchemy writes it, is the same. `:memory:` is no file: each connection would have
    a database of its own.

    *cold* is the URL of its cold tier: see `penstock.cold.storage.open_storage`. If it *has_tables*, hubs keep a Delta
    table of the files of each event type. *replicas* are the URLs of
    standbys of a PostgreSQL database, which serve events once `Store.replicas` was started.

    Raises:
        BadParameter: a URL names no database or no storage that Penstock knows.
        ModuleNotFoundError: psycopg or PyArrow is missing; says what to install.
        RequirementMissing: deltalake is missing, for tables.
    """
    tier = None if cold is None else _open_tier(cold, has_tables=has_tables)
    url = plain_url(url)
    scheme, _, rest = url.partition("://")
    replicas = [plain_url(each) for each in replicas]
    if scheme == "sqlite" and replicas:
        raise BadParameter(
            parameter="replica", value=show_url(replicas[0]), allowed="none: a SQLite database has no replicas"
        )
    if scheme == "sqlite" and rest.startswith("/") and rest not in ("/", "/:memory:"):
        from penstock.storage.sqlite.store import SqliteStore

        return SqliteStore(Path(rest[1:]), tier)
    if scheme in ("postgresql", "postgres"):
        try:
            from penstock.storage.postgres.store import PostgresStore
        except ModuleNotFoundError as error:
            missing = "PostgreSQL needs psycopg: pip install 'penstock-hub[postgres]'"
            raise ModuleNotFoundError(missing, name=error.name) from error
        return PostgresStore(url, tier, replicas)
    raise BadParameter(parameter="database", value=url, allowed="sqlite:///FILE or postgresql://USER@HOST/DATABASE")


def _open_tier(url: str, *, has_tables: bool) -> "ColdTier":
    try:
        from penstock.storage.cold.tier import ColdTier
    except ModuleNotFoundError as error:
        missing = "A cold tier needs PyArrow: pip install 'penstock-hub[arrow]'"
        raise ModuleNotFoundError(missing, name=error.name) from error
    return ColdTier.at(url, has_tables=has_tables)
