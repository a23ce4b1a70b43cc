"""The peers: how each is run, who writes to disk when, and which workloads it has."""

import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Final

from bench.events import line
from bench.load.program import Program
from bench.logs import make_log
from bench.peers.results import Role
from bench.peers.servers import PEERS, find_program, nats_server, nginx_server, rabbitmq_server, redis_server
from bench.peers.workloads import WORKLOADS, Loads, PeerScale
from bench.place import Place
from bench.servers import serving
from penstock.testing.postgres import find_programs
from tests.jars import jars
from tests.kafka import kafka_broker

Open = Callable[[Place, PeerScale], AbstractContextManager[Loads]]

PUBLISHING: Final = ("single-32", "single-1", "batches-1", "batches-4")
FOLLOWING: Final = ("follow-200", "follow-2000")
PAGE: Final = 1000
_NATS_DEFAULT: Final = '"2m"'


class ClientProgram(Program):
    """A load that runs with the peers' clients, which are in an environment of their own."""

    python: ClassVar[str] = str(PEERS / "python")


@dataclass(frozen=True)
class Peer:
    """A system that is measured, with its conditions."""

    name: str
    says: str
    is_durable: bool
    """True if every write is on disk when it is acknowledged."""
    flush: str
    """Says which part of it writes to disk, and when."""
    client: str
    find_version: Callable[[], str]
    open: Open
    workloads: Sequence[str]

    @property
    def role(self) -> Role:
        """Return whether it is ours, another system, or a limit that a hub cannot pass."""
        if self.name.startswith("penstock-"):
            return "ours"
        return "limit" if self.says.startswith("limit: ") else "other"


@contextmanager
def _open_penstock(place: Place, scale: PeerScale, kind: str) -> Iterator[Loads]:
    url = place.database(kind)
    make_log(url, scale.events)
    with place.hub(url) as hub:
        yield Loads(
            "bench.peers.load.over_http", server_pid=hub.pid, port=hub.port, kind="penstock", events=scale.events
        )
    place.drop(url)


@contextmanager
def _open_bare_app(place: Place, scale: PeerScale) -> Iterator[Loads]:
    with serving("bench.beside.group_commit_app", place.directory / "app.db") as server:
        yield Loads("bench.peers.load.over_http", port=server.port, kind="bare", events=scale.events)


@contextmanager
def _open_database(place: Place, scale: PeerScale, kind: str) -> Iterator[Loads]:
    url = place.database(kind)
    loads = Loads("bench.peers.load.databases", url=url, events=scale.events)
    _fill(loads, scale)
    yield loads
    place.drop(url)


@contextmanager
def _open_nginx(place: Place, scale: PeerScale) -> Iterator[Loads]:
    files = place.directory / "pages"
    files.mkdir()
    for page in range(scale.events // PAGE):
        lines = "".join(line(number) for number in range(page * PAGE, (page + 1) * PAGE))
        (files / str(page)).write_text(lines, encoding="utf-8")
    with nginx_server(place.directory, files) as port:
        yield Loads("bench.peers.load.over_http", port=port, kind="nginx", events=scale.events)


@contextmanager
def _open_redis(place: Place, scale: PeerScale, fsync: str) -> Iterator[Loads]:
    with redis_server(place.directory, fsync) as port:
        loads = Loads("bench.peers.load.over_redis", ClientProgram, port=port, events=scale.events)
        _fill(loads, scale)
        yield loads


@contextmanager
def _open_nats(place: Place, scale: PeerScale, sync_interval: str) -> Iterator[Loads]:
    with nats_server(place.directory, _NATS_DEFAULT) as port:  # The log would take minutes to fill otherwise.
        _fill(Loads("bench.peers.load.over_nats", ClientProgram, port=port, events=scale.events), scale)
    with nats_server(place.directory, sync_interval) as port:
        yield Loads("bench.peers.load.over_nats", ClientProgram, port=port, events=scale.events)


@contextmanager
def _open_rabbitmq(place: Place, scale: PeerScale, kind: str) -> Iterator[Loads]:
    with rabbitmq_server(place.directory) as ports:
        given: dict[str, Any] = {"port": ports.amqp, "stream_port": ports.stream, "kind": kind, "events": scale.events}
        loads = Loads("bench.peers.load.over_amqp", ClientProgram, **given)
        if kind == "stream":
            _fill(loads, scale)
        yield loads


@contextmanager
def _open_kafka(place: Place, scale: PeerScale, settings: str) -> Iterator[Loads]:
    with kafka_broker(place.directory, partitions=1, settings=settings, options=("-Xms1g", "-Xmx1g")) as broker:
        port = int(broker.address.rpartition(":")[2])
        loads = Loads("bench.peers.load.over_kafka", ClientProgram, port=port, events=scale.events)
        _fill(loads, scale)
        if not scale.quick:
            for name in (
                "single-32",
                "follow-2000",
                "batches-1",
                "read",
                "readers-100",
            ):  # Java compiles what has run often.
                WORKLOADS[name].measure(loads, scale)
        yield loads


def _fill(loads: Loads, scale: PeerScale) -> None:
    with loads.start() as program:
        program(work="fill", events=scale.events)


def _find_version(*command: str) -> str:
    """Return the first word of what a program says that looks like a version."""
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    words = (done.stdout + done.stderr).replace("=", " ").replace("/", " ").split()
    return next(word.removeprefix("v") for word in words if word.removeprefix("v")[:1].isdigit())


def _find_package_version(name: str) -> str:
    command = f"import importlib.metadata; print(importlib.metadata.version({name!r}))"
    return _find_version(str(PEERS / "python"), "-c", command)


def _find_rabbitmq_version() -> str:
    installed = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
    return installed[-1].name.partition("-")[2] if installed else ""


def _find_kafka_version() -> str:
    [server] = [jar for jar in jars("kafka-broker") if jar.name.startswith("kafka_")]
    return server.stem.rpartition("-")[2]


def _find_client(package: str, rest: str) -> str:
    return f"{package} {_find_package_version(package)} {rest}"


_BARE: Final = "bare sockets"

PEER_LIST: Final = (
    Peer(
        "penstock-sqlite",
        "Penstock on SQLite",
        True,
        "the hub, by group commit: `synchronous = FULL`, fsync before each answer",
        "bare sockets; in Python `penstock.client.Client`",
        lambda: version("penstock-hub"),
        partial(_open_penstock, kind="SQLite"),
        tuple(WORKLOADS),
    ),
    Peer(
        "bare-app",
        "limit: bare uvicorn app, group commit on SQLite",
        True,
        "the app, by group commit: `synchronous = FULL`, fsync before each answer; it checks nothing",
        _BARE,
        lambda: version("uvicorn"),
        _open_bare_app,
        PUBLISHING,
    ),
    Peer(
        "executemany",
        "limit: SQLite, `executemany` without a server",
        True,
        "each transaction: `synchronous = FULL`",
        "`sqlite3` of Python, in the same process",
        lambda: sqlite3.sqlite_version,
        partial(_open_database, kind="SQLite"),
        ("single-1", "batches-1", "publish-python", "read", "read-python"),
    ),
    Peer(
        "penstock-postgres",
        "Penstock on PostgreSQL",
        True,
        "PostgreSQL, at each commit: `fsync` and `synchronous_commit` on; the hub joins what waits to one commit",
        "bare sockets; in Python `penstock.client.Client`",
        lambda: version("penstock-hub"),
        partial(_open_penstock, kind="PostgreSQL"),
        tuple(WORKLOADS),
    ),
    Peer(
        "copy",
        "limit: PostgreSQL, `COPY`, each a transaction",
        True,
        "PostgreSQL, at each commit: `fsync` and `synchronous_commit` on",
        "bare sockets; in Python psycopg",
        lambda: _find_version(str(find_programs() / "postgres"), "--version"),
        partial(_open_database, kind="PostgreSQL"),
        (*PUBLISHING, "publish-python", "read", "read-python"),
    ),
    Peer(
        "nginx",
        "limit: nginx, pages as files",
        False,
        "nobody: it is read only",
        _BARE,
        lambda: _find_version(find_program("nginx"), "-v"),
        _open_nginx,
        ("read", "readers-100"),
    ),
    *(
        Peer(
            f"redis-{fsync}",
            f"Redis stream, `appendfsync {fsync}`",
            fsync == "always",
            flush,
            "bare sockets; in Python and to follow redis-py with hiredis, batches as a pipeline",
            lambda: _find_version(find_program("redis-server"), "--version"),
            partial(_open_redis, fsync=fsync),
            tuple(WORKLOADS),
        )
        for fsync, flush in (
            ("always", "Redis, before it answers what it has received together"),
            ("everysec", "Redis, once a second: a crash of the machine loses up to two seconds"),
        )
    ),
    *(
        Peer(
            f"nats-{name}",
            f"NATS JetStream, `sync_interval: {value}`",
            name == "always",
            flush,
            "bare sockets, batches as atomic ones; in Python and to follow nats-py, which has no atomic batches",
            lambda: _find_version(str(PEERS / "nats-server"), "--version"),
            partial(_open_nats, sync_interval=value),
            tuple(WORKLOADS),
        )
        for name, value, flush in (
            ("always", "always", "NATS, before it acknowledges an event or a batch"),
            (
                "default",
                _NATS_DEFAULT,
                "NATS, every two minutes (the default): a crash of the machine loses what came after",
            ),
        )
    ),
    Peer(
        "rabbitmq-quorum",
        "RabbitMQ quorum queue, publisher confirms",
        True,
        "RabbitMQ, its log at once for all that waits, before it confirms; one node",
        "bare sockets; in Python and to follow aio-pika",
        _find_rabbitmq_version,
        partial(_open_rabbitmq, kind="quorum"),
        (*PUBLISHING, *FOLLOWING, "publish-python"),
    ),
    Peer(
        "rabbitmq-stream",
        "RabbitMQ stream, publisher confirms",
        False,
        "the operating system, when it likes; one node",
        "bare sockets (AMQP); in Python and to follow rstream",
        _find_rabbitmq_version,
        partial(_open_rabbitmq, kind="stream"),
        (*PUBLISHING, *FOLLOWING, "publish-python", "read-python"),
    ),
    *(
        Peer(
            f"kafka-{name}",
            f"Kafka, {says}",
            name == "flush",
            flush,
            "confluent-kafka, `acks=all`; 32 writers share a producer; read without looking: bare sockets",
            _find_kafka_version,
            partial(_open_kafka, settings=settings),
            tuple(WORKLOADS),
        )
        for name, says, settings, flush in (
            (
                "flush",
                "`flush.messages=1`",
                "log.flush.interval.messages=1\n",
                "Kafka, after each record batch, before it acknowledges; one broker",
            ),
            ("default", "default", "", "the operating system, when it likes; one broker"),
        )
    ),
)
PEERS_BY_NAME: Final = {peer.name: peer for peer in PEER_LIST}
