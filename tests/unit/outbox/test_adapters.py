"""Which adapter speaks with which connection."""

import sqlite3
from contextlib import closing

import pytest

from penstock.outbox.adapters import Sqlite3, adapter_of, run_sync_of


def test_a_connection_is_known_by_its_class_or_one_above_it() -> None:
    class Traced(sqlite3.Connection):
        """As a tracing library makes it."""

    with closing(sqlite3.connect(":memory:", factory=Traced)) as connection:
        assert isinstance(adapter_of(connection), Sqlite3)
        assert run_sync_of(connection) is None


def test_a_class_that_only_shares_the_name_is_none() -> None:
    class Connection:
        """Nobody's connection."""

    with pytest.raises(TypeError, match=r"sqlite3\.Connection.*not .*Connection"):
        adapter_of(Connection())
