"""Opens the database that a command works on, and says in one sentence why that fails."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.cli.failures import Failure
from penstock.errors import DatabaseUnavailable
from penstock.storage import Store, open_store

_DRIVERS: Final = ("sqlite3", "psycopg", "psycopg_pool")


@contextmanager
def opened(url: str) -> Iterator[Store]:
    """Lend the store at *url* for as long as the block runs.

    Raises:
        DatabaseUnavailable: it cannot be reached; gives the driver's own reason.
        Failure: it cannot be opened for another reason.
    """
    with _attempts() as attempts:
        try:
            store = open_store(url)
            try:
                yield store
            finally:
                store.close()
        except ModuleNotFoundError as error:
            raise Failure(str(error)) from error
        except DatabaseUnavailable as error:
            reason = attempts.reason or error.fields["reason"]
            raise DatabaseUnavailable(reason=f"{_shown(url)}: {_one_line(reason)}") from error
        except Exception as error:
            if not isinstance(error, OSError) and type(error).__module__.partition(".")[0] not in _DRIVERS:
                raise
            hint = "Check --database: sqlite:///FILE or postgresql://USER@HOST/DATABASE."
            raise Failure(f"{_shown(url)} cannot be used: {_one_line(str(error))}", hint) from error


class _Attempts(logging.Handler):
    """Keeps what the connection pool says of its last attempt; its exception says only that it gave up."""

    reason: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        _, _, reason = record.getMessage().partition(": ")
        self.reason = reason or self.reason


@contextmanager
def _attempts() -> Iterator[_Attempts]:
    log, handler = logging.getLogger("psycopg.pool"), _Attempts()
    log.addHandler(handler)
    propagated, log.propagate = log.propagate, False
    try:
        yield handler
    finally:
        log.removeHandler(handler)
        log.propagate = propagated


def _shown(url: str) -> str:
    """Return *url* without what may be a password."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}".partition("?")[0]


def _one_line(text: str) -> str:
    return " ".join(text.split())
