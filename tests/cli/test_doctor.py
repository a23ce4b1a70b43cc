"""`penstock doctor` finds problems of a database; `penstock migrate` makes its tables."""

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from penstock import outbox
from penstock.core.access import Caller
from penstock.hub.admin.settings import Settings
from penstock.hub.admin.tokens import Tokens
from penstock.hub.background import system_clock
from penstock.storage import open_store
from penstock.storage.postgres.store import PostgresStore
from tests.cli.command import Command
from tests.promises.scene import NAME, create, event
from tests.sealing import seal, sealing_hub
from tests.server.authentication.authority import DAY, Authority

DATABASE = ["database", "schema", "durability", "long transactions", "outbox", "rejected"]
ACCESS = ["cold tier", "authentication", "administrators", "tokens", "certificate"]


def verdicts(penstock: Command, database: str) -> dict[str, str]:
    examined = penstock("doctor", "--database", database, "-o", "json")
    found = examined.json
    assert found["ok"] == (examined.status == 0)
    return {each["name"]: each["verdict"] for each in found["checks"]}


def wrong(penstock: Command, database: str) -> list[str]:
    """Return the checks of the database that have failed."""
    return [name for name, verdict in verdicts(penstock, database).items() if verdict == "wrong" and name in DATABASE]


def execute(database: str, sql: str) -> None:
    if database.startswith("sqlite:///"):
        with closing(sqlite3.connect(database.removeprefix("sqlite:///"))) as connection, connection:
            connection.execute(sql)
    else:
        with psycopg.connect(database) as connection:
            connection.execute(sql.encode())


def set_fsync(database: str, wanted: str) -> None:
    """Set it for the whole server and return when new connections see it."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET fsync = {wanted}".encode())
        connection.execute("SELECT pg_reload_conf()")
    while True:
        with psycopg.connect(database) as connection:
            if connection.execute("SHOW fsync").fetchone() == (wanted,):
                return


def test_sound_database_is_ok(penstock: Command, database_url: str) -> None:
    assert penstock("migrate", "--database", database_url).status == 0

    found = verdicts(penstock, database_url)
    shown = penstock("doctor", "--database", database_url).out

    assert [name for name in found if name not in {"spark", "java"}] == [*DATABASE, *ACCESS]
    assert all(found[name] == "ok" for name in DATABASE)
    assert all(found[name] == "absent" for name in ACCESS)
    assert {"spark", "java"} <= found.keys()
    assert ["ok", "schema"] in [line.split()[:2] for line in shown.splitlines()]


def test_doctor_tells_who_has_access_and_until_when(penstock: Command, sqlite_url: str, tmp_path: Path) -> None:
    penstock("migrate", "--database", sqlite_url)
    with closing(open_store(sqlite_url)) as store:
        Settings(store, lambda: None).switch_on_at_first("audit_log_collection")
        for name, seconds in (("gone", -1.0), ("soon", 3600.0), ("later", 8 * 86400.0), ("stays", None)):
            Tokens(store, system_clock).create(Caller("service", name), expires_in_seconds=seconds)
    penstock("access", "add", "admins", "user:jane", "--database", sqlite_url)
    expired, _ = Authority(tmp_path).sign_for_server("expired", begins=-2 * DAY, ends=-DAY)
    valid, _ = Authority(tmp_path).sign_for_server("valid")

    def check(**environment: str) -> dict[str, tuple[str, str]]:
        report = penstock("doctor", "--database", sqlite_url, "-o", "json", **environment).json
        return {each["name"]: (each["verdict"], each["says"]) for each in report["checks"]}

    found = check(PENSTOCK_TLS_CERT=str(expired))

    assert found["authentication"] == ("ok", "a hub with --auth has served this database")
    assert found["administrators"] == ("ok", "user:jane")
    assert found["tokens"][0] == "ok"
    assert (
        "3 valid, 1 expired; without a valid one: service:gone; last ones expire: service:soon at "
        in (found["tokens"][1])
    )
    assert "later" not in found["tokens"][1]
    assert found["certificate"][0] == "wrong"
    assert "has expired" in found["certificate"][1]
    assert check(PENSTOCK_TLS_CERT=str(valid))["certificate"][0] == "ok"
    assert check(PENSTOCK_TLS_CERT="nosuch.pem")["certificate"][0] == "wrong"


def test_doctor_tells_of_the_cold_tier_what_the_database_knows(
    penstock: Command, migrated_url: str, tmp_path: Path
) -> None:
    cold = (tmp_path / "cold").as_uri()
    with sealing_hub(migrated_url, cold) as hub:
        create(hub, partitions=1)
        hub.log.publish(NAME, [event({"n": n}) for n in range(10)])
        seal(hub)

    report = penstock("doctor", "--database", migrated_url, "-o", "json").json

    [found] = [each for each in report["checks"] if each["name"] == "cold tier"]
    assert found["verdict"] == "ok"
    assert found["says"].startswith(f"{cold} should have 1 file of 0.0 MB: ")


def test_database_with_tokens_that_every_user_may_read_is_found(penstock: Command) -> None:
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        file = Path(folder).resolve() / "hub.db"
        url = f"sqlite:///{file}"

        def find() -> list[str]:
            report = penstock("doctor", "--database", url, "-o", "json").json
            return [each["says"] for each in report["checks"] if each["name"] == "file mode"]

        penstock("migrate", "--database", url)
        file.chmod(0o644)
        assert find() == []
        penstock("token", "create", "billing", "--database", url)
        [says] = find()
        assert says.startswith(f"{file} has mode 0644: every user of this machine may read events and digests of tok")
        assert says.endswith(f"; run `chmod o= {file}*`")
        Path(folder).chmod(0o750)
        assert find() == []
        Path(folder).chmod(0o755)
        file.chmod(0o640)
        assert find() == []


def test_checks_of_missing_tables_are_absent_and_not_ok(penstock: Command, database_url: str) -> None:
    execute(database_url, "CREATE TABLE theirs (n integer)")

    found = verdicts(penstock, database_url)
    shown = penstock("doctor", "--database", database_url)

    assert found["schema"] == "wrong"
    assert (found["outbox"], found["rejected"]) == ("absent", "absent")
    assert found["durability"] == ("absent" if database_url.startswith("sqlite") else "ok")
    (outbox,) = [line.split(maxsplit=2) for line in shown.out.splitlines() if "outbox" in line]
    assert outbox[:2] == ["absent", "outbox"]
    assert outbox[2].strip() == "nothing to look at before `penstock migrate` has run"


def test_outbox_made_by_a_service_before_the_hub_is_checked(penstock: Command, database_url: str) -> None:
    is_sqlite = database_url.startswith("sqlite:///")
    path = database_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path) if is_sqlite else psycopg.connect(database_url)) as connection, connection:
        outbox.create(connection)
    execute(database_url, "INSERT INTO penstock_outbox (event_type, data) VALUES ('x', '{}')")

    report = penstock("doctor", "--database", database_url, "-o", "json").json

    (found,) = [each for each in report["checks"] if each["name"] == "outbox"]
    assert (found["verdict"], found["says"]) == ("ok", "1 rows wait to be moved")


REJECTED_ROW = """
    INSERT INTO penstock_rejected (event_type, data, created_at, rejected_at, reason)
    VALUES ('x', '{}', '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z', 'no such event type')
"""
MANY_ROWS = """
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10000)
    INSERT INTO penstock_outbox (event_type, data) SELECT 'x', '{}' FROM n
"""


@pytest.mark.parametrize(
    ("check", "rows", "says"),
    [
        ("rejected", REJECTED_ROW, "1 could not be published: see `penstock rejected list`"),
        ("outbox", MANY_ROWS, "10000 rows wait"),
    ],
)
def test_rows_that_are_not_published_are_wrong(
    penstock: Command, database_url: str, check: str, rows: str, says: str
) -> None:
    penstock("migrate", "--database", database_url)
    execute(database_url, rows)

    assert wrong(penstock, database_url) == [check]
    examined = penstock("doctor", "--database", database_url)
    assert (examined.status, says in examined.out) == (1, True)


def test_file_not_in_wal_mode_is_wrong_and_left_so(penstock: Command, sqlite_url: str) -> None:
    penstock("migrate", "--database", sqlite_url)
    execute(sqlite_url, "PRAGMA journal_mode = DELETE")

    assert wrong(penstock, sqlite_url) == ["durability"]
    assert wrong(penstock, sqlite_url) == ["durability"]


def test_server_without_fsync_is_wrong(penstock: Command, postgres_url: str) -> None:
    penstock("migrate", "--database", postgres_url)
    try:
        set_fsync(postgres_url, "off")
        assert wrong(penstock, postgres_url) == ["durability"]
    finally:
        set_fsync(postgres_url, "on")


def test_transaction_that_locks_the_file_is_wrong(penstock: Command, sqlite_url: str) -> None:
    penstock("migrate", "--database", sqlite_url)
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")

        assert wrong(penstock, sqlite_url) == ["long transactions"]

        connection.execute("ROLLBACK")
    assert wrong(penstock, sqlite_url) == []


def test_large_write_ahead_log_kept_by_a_reader_is_wrong(penstock: Command, sqlite_url: str) -> None:
    penstock("migrate", "--database", sqlite_url)
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as connection:
        connection.execute("SELECT count(*) FROM penstock_outbox").fetchone()
        with Path(f"{sqlite_url.removeprefix('sqlite:///')}-wal").open("r+b") as log:
            log.truncate(300 * 2**20)  # Only the size is looked at; the rest is a hole.

        assert wrong(penstock, sqlite_url) == ["long transactions"]


def test_long_transaction_is_wrong(postgres_url: str) -> None:
    with closing(PostgresStore(postgres_url)) as store, psycopg.connect(postgres_url) as connection:
        store.migrate()
        connection.execute("SELECT 1")

        found = {each.name: each for each in store.doctor(long_transaction_seconds=0)}

        assert not found["long transactions"].ok
        assert f"pid {connection.info.backend_pid}" in found["long transactions"].says
        connection.rollback()
        assert all(each.ok for each in store.doctor(long_transaction_seconds=0))


def test_missing_database_is_not_created(penstock: Command) -> None:
    examined = penstock("doctor", "--database", "sqlite:///none.db")

    assert examined.status == 1
    assert f"there is no file {penstock.directory}/none.db" in examined.out
    assert list(penstock.directory.iterdir()) == []


@pytest.mark.usefixtures("short_database_wait")
def test_unreachable_server_is_wrong(penstock: Command) -> None:
    assert verdicts(penstock, "postgresql://nobody@127.0.0.1:1/none")["database"] == "wrong"


def test_missing_java_is_wrong(penstock: Command, sqlite_url: str, tmp_path: Path) -> None:
    penstock("migrate", "--database", sqlite_url)

    examined = penstock("doctor", "--database", sqlite_url, JAVA_HOME=str(tmp_path))

    assert examined.status == 1
    assert any(line.startswith("WRONG") and "java" in line for line in examined.out.splitlines())


def test_migrate_prints_the_migrations_that_ran(penstock: Command, database_url: str) -> None:
    first = penstock("migrate", "--database", database_url, "-o", "json").json
    second = penstock("migrate", "--database", database_url)

    assert first["ran"][0] == "0001 log"
    assert "there was nothing to do" in second.out


def test_printed_sql_makes_the_tables_and_creates_no_file(penstock: Command, database_url: str) -> None:
    assert penstock("migrate", "--print-sql").status == 0
    assert list(penstock.directory.iterdir()) == []
    assert penstock("migrate", "--print-sql", "--database", "mysql://x").status == 2

    script = penstock("migrate", "--print-sql", "--database", database_url).out
    if database_url.startswith("sqlite:///"):
        with closing(sqlite3.connect(database_url.removeprefix("sqlite:///"))) as connection:
            connection.executescript(script)
    else:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(script.encode())

    assert verdicts(penstock, database_url)["schema"] == "ok"
    assert penstock("migrate", "--database", database_url, "-o", "json").json["ran"] == []


def test_file_of_another_application_stays_unchanged(penstock: Command, tmp_path: Path) -> None:
    file = tmp_path / "theirs.db"
    execute(f"sqlite:///{file}", "CREATE TABLE theirs (n INTEGER)")
    before = file.read_bytes()

    for command in ("doctor", "rejected list", "rejected retry --all", "rejected delete --all --yes", "restored"):
        assert penstock(*command.split(), "--database", f"sqlite:///{file}").status == 1

    assert file.read_bytes() == before
