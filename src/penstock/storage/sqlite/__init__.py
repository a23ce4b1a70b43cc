"""The store in one SQLite file; each module implements the port of the same name in `penstock.storage`."""

from typing import Final

from penstock.storage.statements import Dialect, replace_words

_WORDS: Final = {
    r"\s+FOR (UPDATE|KEY SHARE)( SKIP LOCKED)?\b": "",
    r' COLLATE "C"': "",
    r"\bgreatest\(": "max(",
    r"\bas_json\(([\w.]+)\)": r"\1",
    r"\bclock_micros\(\)": "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
}


def to_sqlite(sql: str) -> str:
    """Return a statement for SQLite.

    >>> to_sqlite('SELECT greatest(a, b) FROM t ORDER BY a COLLATE "C" FOR UPDATE SKIP LOCKED')
    'SELECT max(a, b) FROM t ORDER BY a'
    """
    return replace_words(sql, _WORDS)


SQLITE: Final = Dialect(__name__, translate=to_sqlite)
