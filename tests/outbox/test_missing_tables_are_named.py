"""A database without Penstock's tables is told apart, with what to do about it, on every kind of connection."""

import pytest

from penstock.errors import DatabaseUnsuitable
from penstock.outbox import create, publish
from tests.outbox.kinds import Service, with_psycopg, with_sqlite3


def test_a_database_without_a_hub_is_named(bare_service: Service) -> None:
    bare_service.transact(create)

    with pytest.raises(DatabaseUnsuitable, match=r"no table penstock_event_type.*penstock migrate"):
        bare_service.transact(lambda connection: publish(connection, "undefined", {}))


def test_a_database_without_an_outbox_is_named(service: Service) -> None:
    plainly = with_sqlite3 if service.url.startswith("sqlite") else with_psycopg
    plainly(service.url, lambda connection: connection.execute("DROP TABLE penstock_outbox"))

    with pytest.raises(DatabaseUnsuitable, match=r"no table penstock_outbox.*penstock\.outbox\.create\(connection\)"):
        service.transact(lambda connection: publish(connection, "undefined", {}))
