"""What every test can ask for: databases of its own, empty and thrown away afterwards."""

import functools
import gc
import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import structlog
from _pytest.doctest import DoctestModule

from penstock.storage import open_store
from penstock.testing.live_hub import LiveHub
from penstock.testing.pgbouncer import PgBouncer, PgBouncerMissing
from penstock.testing.postgres import PostgresCluster, PostgresMissing
from tests.certificates import share_certificates
from tests.databases import Databases, EmptyDatabases
from tests.exhaustive import PROFILE, is_exhaustive, mark_combinations, uses_both_databases
from tests.forks import FORKS
from tests.java import spark_options
from tests.order import folder_of, put_slowest_first
from tests.s3 import create_bucket, s3_server
from tests.temporary import use_memory
from tests.times import SHORT_DATABASE_WAIT, SHORT_LEASE, SHORT_REPLICA_PAUSE, SHORT_STOP, VARIABLE

pytest_plugins = ["pytester", "tests.no_skips"]

TESTS = Path(__file__).parent
BUILD = TESTS.parent / "build"
GUARANTEES = TESTS.parent / "docs" / "guarantees.md"
EVERY_COMBINATION = ("unit", "docs")
"""The folders whose tests without a database run with each combination of their parameters in `make test`, too."""

# A slow machine is no bug; what has failed can be run again from what is printed.
hypothesis.settings.register_profile("penstock", deadline=None, print_blob=True, max_examples=25)
hypothesis.settings.register_profile(PROFILE, deadline=None, print_blob=True)
hypothesis.settings.load_profile("penstock")

# To look for garbage among ten thousand tests that all live until the end takes half the time of their collection.
gc.disable()


def pytest_configure() -> None:
    """Take signals as in the foreground: what a shell starts in the background ignores two, and so do its children.

    Have what is started of Spark run in haste, and fork hubs from one process, which takes a tenth of their time.
    """
    use_memory()
    share_certificates()
    # By default structlog draws tables of all variables of a traceback, which takes a second and a half.
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure([*structlog.get_config()["processors"][:-1], plain])
    LiveHub.start_penstock = FORKS.hub  # type: ignore[method-assign]
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
        os.environ.setdefault(name, spark_options())
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Iterator[list[pytest.Collector]]:
    """Look for no doctests in tests: to look takes a third of the collection."""
    found = yield
    return [each for each in found if not isinstance(each, DoctestModule)]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Leave out combinations of parameters, unless they are cheap. Put the slowest tests first."""
    cheap = ("", *EVERY_COMBINATION)
    some = (item for item in items if folder_of(item.path) not in cheap or uses_both_databases(item))
    mark_combinations(some, shows_a_promise)
    yield
    put_slowest_first(items)


def pytest_collection_finish() -> None:
    """Look for garbage from here on, and not among the tests."""
    gc.freeze()
    gc.enable()


@functools.cache
def shows_a_promise(path: Path) -> bool:
    """Return whether the page of guarantees names the file as one that shows a promise."""
    return f"/{path.relative_to(TESTS.parent).as_posix()}" in GUARANTEES.read_text(encoding="utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Have one worker run all tests with Spark in `make test`; `make test-all` has too many of them for that."""
    if config.getoption("dist") != "loadfile" or is_exhaustive():
        return None
    from tests.scheduling import OneWorkerForSpark

    return OneWorkerForSpark(config, log)


@pytest.fixture(scope="session", autouse=True)
def forks() -> Iterator[None]:
    """End what forks."""
    yield
    FORKS.close()


def start_if_down(cluster: PostgresCluster) -> None:
    """Start the cluster if it does not run: the test before may have failed between `kill` and `start`."""
    if not cluster.running:
        cluster.start()


@pytest.fixture(scope="session")
def postgres_cluster(request: pytest.FixtureRequest) -> Iterator[PostgresCluster]:
    """A running cluster, one for each process of the test run. Its log is kept in build/ when a test has failed."""
    try:
        cluster = PostgresCluster()
    except PostgresMissing as missing:
        pytest.skip(str(missing))
    with cluster:
        yield cluster
        if request.session.testsfailed:
            BUILD.mkdir(exist_ok=True)
            worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
            shutil.copy(cluster.log, BUILD / f"postgres-{worker}.log")


@pytest.fixture(scope="session")
def databases(postgres_cluster: PostgresCluster) -> Iterator[Databases]:
    """The databases of the cluster that are lent to tests."""
    with closing(Databases(postgres_cluster)) as lent:
        yield lent


@pytest.fixture(scope="session")
def empty_databases(postgres_cluster: PostgresCluster) -> Iterator[EmptyDatabases]:
    """The empty databases of the cluster that are lent to tests."""
    with closing(EmptyDatabases(postgres_cluster)) as lent:
        yield lent


@pytest.fixture
def migrated_postgres_url(postgres_cluster: PostgresCluster, databases: Databases) -> Iterator[str]:
    """The URL of a PostgreSQL database as a hub has migrated it, which is there sooner than an empty one."""
    start_if_down(postgres_cluster)
    url = databases.lend()
    yield url
    start_if_down(postgres_cluster)
    databases.take_back(url)


@pytest.fixture
def postgres_url(postgres_cluster: PostgresCluster, empty_databases: EmptyDatabases) -> Iterator[str]:
    """The URL of an empty PostgreSQL database."""
    start_if_down(postgres_cluster)
    url = empty_databases.lend()
    yield url
    start_if_down(postgres_cluster)
    empty_databases.take_back(url)


@pytest.fixture(scope="session")
def pgbouncer(postgres_cluster: PostgresCluster) -> Iterator[PgBouncer]:
    """A running PgBouncer before the cluster, likewise."""
    try:
        bouncer = PgBouncer(postgres_cluster)
    except PgBouncerMissing as missing:
        pytest.skip(str(missing))
    with bouncer:
        yield bouncer


@pytest.fixture
def pgbouncer_url(pgbouncer: PgBouncer, postgres_url: str) -> str:
    """The URL of an empty PostgreSQL database, by way of PgBouncer."""
    if not pgbouncer.running:  # The test before may have failed between `kill` and `start`.
        pgbouncer.start()
    return pgbouncer.url(postgres_url)


@pytest.fixture(scope="session")
def s3_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server that speaks S3."""
    with s3_server(tmp_path_factory.mktemp("s3")) as port:
        yield port


@pytest.fixture
def bucket(s3_port: int) -> str:
    """The address of an empty bucket, as Hadoop writes it."""
    return create_bucket(s3_port)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of an SQLite database that does not exist yet."""
    return f"sqlite:///{tmp_path}/penstock.db"


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with a hub's tables."""
    file = tmp_path_factory.mktemp("migrated") / "penstock.db"
    with closing(open_store(f"sqlite:///{file}")) as store:
        store.migrate()
    return file


@pytest.fixture
def migrated_sqlite_url(migrated_file: Path, tmp_path: Path) -> str:
    """The URL of an SQLite database as a hub has migrated it: it is copied, which takes less time."""
    for file in migrated_file.parent.iterdir():
        shutil.copy(file, tmp_path)
    return f"sqlite:///{tmp_path}/{migrated_file.name}"


@pytest.fixture(params=["sqlite", "postgres"])
def migrated_url(request: pytest.FixtureRequest) -> str:
    """The URL of a database with a hub's tables, on SQLite and on PostgreSQL in turn."""
    url: str = request.getfixturevalue(f"migrated_{request.param}_url")
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database, on SQLite and on PostgreSQL in turn."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hubs that this test starts have short leases: another hub has soon what a killed one had."""
    monkeypatch.setenv(VARIABLE, json.dumps(SHORT_LEASE))


@pytest.fixture
def short_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hubs that this test starts soon give up on requests under way when they are stopped."""
    monkeypatch.setenv(VARIABLE, json.dumps(SHORT_STOP))


@pytest.fixture
def short_replica_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hubs that this test starts soon give up a replica that fails, and soon use it again."""
    monkeypatch.setenv(VARIABLE, json.dumps(SHORT_REPLICA_PAUSE))


@pytest.fixture
def short_database_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process, and hubs and commands that this test starts, soon report a database that is away or locked."""
    monkeypatch.setenv(VARIABLE, json.dumps(SHORT_DATABASE_WAIT))
    for name, value in SHORT_DATABASE_WAIT.items():
        monkeypatch.setattr(name, value)
