"""The SQL of docs/reference/outbox.md does what it says, run as it stands there by the databases' own tools.

So does the first program of docs/guides/outbox.md.
"""

import json
import re
import sqlite3
import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import sqlalchemy

import penstock.outbox
from penstock.errors import InvalidEvent
from penstock.testing.postgres import find_programs
from tests.docs import examples
from tests.outbox.kinds import engine, fetch, path_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "outbox.md").read_text(encoding="utf-8")
GUIDE = ROOT / "docs" / "guides" / "outbox.md"
ORDERS = "CREATE TABLE orders (id integer PRIMARY KEY, state text); INSERT INTO orders VALUES (7, 'new');"


def blocks(info: str) -> list[str]:
    """Return the page's code blocks that are marked with *info*."""
    return re.findall(rf"^```{info}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def run_psql(url: str, script: str) -> None:
    command = [str(find_programs() / "psql"), "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--quiet", url]
    subprocess.run(command, input=script, text=True, check=True)


def run_sqlite(url: str, script: str) -> None:
    with closing(sqlite3.connect(path_of(url), isolation_level=None)) as connection:
        connection.executescript(script)


def test_any_language_publishes_with_one_insert(hub_url: str) -> None:
    name, run = ("sqlite", run_sqlite) if hub_url.startswith("sqlite") else ("postgresql", run_psql)
    run(hub_url, ORDERS)
    scripts = blocks(f"sql {name}")

    for script in scripts:
        run(hub_url, script)

    placed, paid = fetch(hub_url, "SELECT event_type, data, key, headers FROM penstock_outbox ORDER BY id")
    assert placed == ("order.placed", '{"order_id": 7, "total": "19.90"}', "7", '{"ce_source": "/shop"}')
    assert fetch(hub_url, "SELECT state FROM orders") == [("placed",)]
    event = json.loads(paid[1])
    assert event["order_id"] == 7
    assert re.fullmatch(
        r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", event["metadata"]["eid"]
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["metadata"]["occurred_at"])


def test_documented_check_refuses_other_json_than_events_and_unknown_types(hub_url: str) -> None:
    name, run = ("sqlite", run_sqlite) if hub_url.startswith("sqlite") else ("postgresql", run_psql)
    [check] = blocks(f"sql {name} check")
    insert = "INSERT INTO penstock_outbox (event_type, data) VALUES ('{}', '{}');"
    run(hub_url, check)

    run(hub_url, insert.format("undefined", '{"order_id": 7}'))
    for event_type, data in (("undefined", "[]"), ("undefined", "{"), ("order.placed", "{}")):
        with pytest.raises((sqlite3.Error, subprocess.CalledProcessError)):
            run(hub_url, insert.format(event_type, data))

    assert fetch(hub_url, "SELECT data FROM penstock_outbox") == [('{"order_id": 7}',)]


@pytest.fixture
def shop_url(postgres_hub: str) -> Iterator[str]:
    """The hub's database for the role `shop`, which may do nothing yet."""
    with psycopg.connect(postgres_hub, autocommit=True) as owner:
        owner.execute("CREATE ROLE shop LOGIN")
        yield postgres_hub.replace("postgres@", "shop@")
        owner.execute("DROP OWNED BY shop")
        owner.execute("DROP ROLE shop")


def test_documented_rights_are_enough_and_no_more(postgres_hub: str, shop_url: str) -> None:
    [grants] = blocks("sql postgresql rights")
    run_psql(postgres_hub, grants)

    with psycopg.connect(shop_url) as shop:
        for event in ({"order_id": 7}, {"order_id": 8}):
            penstock.outbox.publish(shop, "business", event)
        with pytest.raises(InvalidEvent):
            penstock.outbox.publish(shop, "business", {"metadata": {"eid": 7}})
        penstock.outbox.create(shop)

    assert fetch(postgres_hub, "SELECT count(*) FROM penstock_outbox") == [(2,)]
    for denied in (
        "SELECT data FROM penstock_outbox",
        "DELETE FROM penstock_outbox",
        "SELECT epoch FROM penstock_event_type",
        "UPDATE penstock_event_type SET fingerprint = ''",
        "SELECT floor FROM penstock_partition",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            fetch(shop_url, denied)


def test_missing_right_is_reported_with_the_grant(shop_url: str) -> None:
    with psycopg.connect(shop_url) as shop, pytest.raises(psycopg.errors.InsufficientPrivilege) as denied:
        penstock.outbox.publish(shop, "undefined", {})

    assert "GRANT INSERT ON penstock_outbox" in denied.value.__notes__[0]


def test_documented_alembic_revision_creates_the_outbox(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    [revision] = [block for block in blocks("python") if "alembic" in block]
    with engine(postgres_url) as opened, opened.begin() as connection:
        # Alembic runs a text as SQLAlchemy's text, within the transaction of the upgrade.
        op = types.SimpleNamespace(execute=lambda text: connection.execute(sqlalchemy.text(text)))
        monkeypatch.setitem(sys.modules, "alembic", types.SimpleNamespace(op=op))
        namespace: dict[str, object] = {}
        exec(compile(revision, "revision", "exec"), namespace)
        upgrade = namespace["upgrade"]
        assert callable(upgrade)
        upgrade()

    assert fetch(postgres_url, "SELECT count(*) FROM penstock_outbox") == [(0,)]


def test_first_example_of_the_guide_works(sqlite_hub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run_sqlite(sqlite_hub, ORDERS + "UPDATE penstock_event_type SET name = 'order.placed' WHERE name = 'undefined'")
    monkeypatch.chdir(Path(path_of(sqlite_hub)).parent)
    example = next(each.text for each in examples.blocks(GUIDE)).replace("shop.db", path_of(sqlite_hub))

    namespace: dict[str, object] = {}
    exec(example, namespace)
    connection = namespace["connection"]
    assert isinstance(connection, sqlite3.Connection)
    connection.close()

    assert fetch(sqlite_hub, "SELECT data FROM penstock_outbox") == [('{"order_id":7,"customer":"Ada"}',)]


@pytest.mark.parametrize(
    "name", ["outbox_sqlite3", "outbox_django", "outbox_sqlalchemy", "outbox_psycopg", "outbox_asyncpg"]
)
def test_example_commits_an_order_and_its_event(name: str, request: pytest.FixtureRequest) -> None:
    on_postgres = name in ("outbox_psycopg", "outbox_asyncpg")
    url = request.getfixturevalue("postgres_hub" if on_postgres else "sqlite_hub")
    rename = "UPDATE penstock_event_type SET name = 'order.placed' WHERE name = 'undefined'"
    (run_psql if on_postgres else run_sqlite)(url, rename)
    given = url if on_postgres or name == "outbox_sqlalchemy" else path_of(url)

    subprocess.run([sys.executable, "-W", "error", f"examples/{name}.py", given], check=True, cwd=ROOT)

    assert fetch(url, "SELECT id, customer FROM orders") == [(1, "Ada")]
    [(data,)] = fetch(url, "SELECT data FROM penstock_outbox")
    assert json.loads(data) == {"order_id": 1, "customer": "Ada"}
