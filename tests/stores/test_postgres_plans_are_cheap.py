"""PostgreSQL compiles a statement that it takes for expensive (`jit_above_cost`), in a third of a second."""

from typing import Any

import psycopg
import pytest

from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.storage.postgres import POSTGRES
from penstock.testing.factories import an_event_type

COST_MAX = 10_000
"""A tenth of what is compiled, unless the database is told otherwise."""
_SUBSCRIPTIONS = """
    INSERT INTO penstock_group (name, kind, created_at)
    SELECT 's' || n, 'subscription', 0 FROM generate_series(1, 1000) AS n;
    INSERT INTO penstock_subscription (id, identity, owning_application, definition, created_at, updated_at, revision)
    SELECT 's' || n, n::text, 'shop', '{"authorization": {"readers": []}}', n, n, 0 FROM generate_series(1, 1000) AS n;
    INSERT INTO penstock_subscription_source
    SELECT 's' || n, t.id FROM generate_series(1, 1000) AS n CROSS JOIN penstock_event_type AS t;
    ANALYZE"""


@pytest.mark.parametrize("name", ["subscriptions_newest", "subscriptions_after"])
@pytest.mark.parametrize("event_types", ["[]", '["order.placed"]'], ids=["all", "by event type"])
def test_list_of_a_thousand_subscriptions_has_a_cheap_plan(postgres_url: str, name: str, event_types: str) -> None:
    store = open_store(postgres_url)
    store.migrate()
    Hub(store).registry.create(an_event_type("order.placed"))
    store.close()
    given: dict[str, Any] = {"owner": None, "data_type": None, "value": None, "event_types": event_types}
    given |= {"limit": 1000, "offset": 0, "after": ""}

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(_SUBSCRIPTIONS)
        sql = POSTGRES.statements[name]
        assert len(connection.execute(sql, given).fetchall()) == 1000
        [[plan]] = connection.execute(b"EXPLAIN (FORMAT JSON) " + sql.encode(), given).fetchone() or ()

    assert plan["Plan"]["Total Cost"] < COST_MAX
