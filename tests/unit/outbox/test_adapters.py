"""Which adapter speaks with which connection."""

import sqlite3
from contextlib import closing

import pytest

from penstock.outbox.adapters import Sqlite3, make_adapter, run_sync_of


def test_subclass_of_a_connection_gets_its_adapter() -> None:
    class Traced(sqlite3.Connection):
        """As a tracing library makes it."""

    with closing(sqlite3.connect(":memory:", factory=Traced)) as connection:
        assert isinstance(make_adapter(connection), Sqlite3)
        assert run_sync_of(connection) is None


def test_class_of_the_same_name_is_refused() -> None:
    class Connection:
        """Nobody's connection."""

    with pytest.raises(TypeError, match=r"sqlite3\.Connection.*not .*Connection"):
        make_adapter(Connection())
