"""Database URLs in the forms that drivers and SQLAlchemy take."""

from typing import Final

_DATABASES: Final = {"postgresql", "postgres", "sqlite"}


def plain_url(url: str) -> str:
    r"""Return *url* in the form that drivers take: without white space around it and SQLAlchemy's driver name.

    A URL that was read from a file mostly ends in a line break.

    >>> plain_url("postgresql+psycopg://me@host/shop\n"), plain_url("sqlite+aiosqlite:///shop.db")
    ('postgresql://me@host/shop', 'sqlite:///shop.db')
    """
    scheme, separator, rest = url.strip().partition("://")
    database = scheme.partition("+")[0]
    return f"{database if database in _DATABASES else scheme}{separator}{rest}"
