"""URLs of databases: checks them, finds the file of SQLite's, and removes secrets for display."""

from pathlib import Path
from typing import Final

from penstock.cli.failures import MISUSED, CommandFailure
from penstock.core.database_url import plain_url, show_url

SQLITE: Final = "sqlite:///"
_POSTGRES: Final = ("postgresql://", "postgres://")


def check_database(url: str) -> str:
    """Return *url*, as drivers take it, if it is that of a database which Penstock knows.

    Raises:
        CommandFailure: it is not; proposes the URL of the file that may be meant.
    """
    url = plain_url(url)
    if url.startswith(_POSTGRES) or file_of(url) is not None:
        return url
    postgres = "postgresql://USER@HOST/DATABASE"
    if (path := _path_meant(url)) is None:
        raise CommandFailure(
            f"{hide_password(url)} names no database", f"--database is {SQLITE}FILE or {postgres}.", status=MISUSED
        )
    hint = f"The SQLite file of that name is {SQLITE}{path}; a PostgreSQL database is {postgres}."
    raise CommandFailure(f"{url} is not the URL of a database", hint, status=MISUSED)


def file_of(url: str) -> Path | None:
    """Return the file that *url* names; None where it names no SQLite database."""
    path = url.removeprefix(SQLITE)
    return Path(path) if path != url and path not in ("", ":memory:") else None


def hide_password(url: str) -> str:
    """Return *url* without what may be a password."""
    return show_url(url) if "://" in url else "what --database says"


def _path_meant(url: str) -> str | None:
    """Return the path that stands where a URL should; None for anything else, since a password may be in that."""
    path = url.removeprefix("sqlite:").removeprefix("//")
    return None if not path.strip("/") or set(path) & set(":@=?") else path
