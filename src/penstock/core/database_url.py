"""URLs of databases, as they are written for drivers and for SQLAlchemy."""

from typing import Final

_DATABASES: Final = {"postgresql", "postgres", "sqlite"}


def plain_url(url: str) -> str:
    r"""Return *url* as drivers take it: without white space around it and the driver that SQLAlchemy reads there.

    Files that hold a URL mostly end in a line break.

    >>> plain_url("postgresql+psycopg://me@host/shop\n"), plain_url("sqlite+aiosqlite:///shop.db")
    ('postgresql://me@host/shop', 'sqlite:///shop.db')
    """
    scheme, separator, rest = url.strip().partition("://")
    database = scheme.partition("+")[0]
    return f"{database if database in _DATABASES else scheme}{separator}{rest}"
