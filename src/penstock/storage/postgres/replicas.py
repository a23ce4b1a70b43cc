"""Standbys that serve chunks of events: what a standby has replayed need not be read from the primary.

Invariants:
    Heads, and so the range that a reader asks for, come from the primary. A chunk of a replica has all events of it.
    One snapshot of the replica shows that it is a standby on the primary's timeline, and has the end of the range: see
    `PrimaryHistory`. The range can have no other events then, also if the replica is promoted later.
    A replica that has not replayed all of the primary's commits of up to `LAG_MAX` ago is not used.
    A replica that fails, is slow or cannot be reached delays few readers by `ANSWER_SECONDS` at most: it is left alone
    for `PAUSE_SECONDS`, and for twice as long each time it fails again before it has served a chunk.
"""

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple, TypeVar

import psycopg
import structlog
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock.core.database_url import format_postgres, show_url
from penstock.errors import BadParameter, DatabaseUnsuitable, PenstockError
from penstock.storage.log.events import LogRepository
from penstock.storage.log.removal import RemovalRepository
from penstock.storage.postgres import POSTGRES
from penstock.storage.postgres.history import PrimaryHistory
from penstock.storage.postgres.log.events import PostgresLog, return_text_as_bytes
from penstock.storage.statements import SqlRunner
from penstock.storage.store import EventTx, ReplicaMeasurement

LAG_MAX: Final = 10.0
"""A replica is used while it has everything that was committed this many seconds ago."""
CHECK_INTERVAL: Final = 1.0
PAUSE_SECONDS: Final = 5.0
"""Seconds for which a replica is not used after a failure."""
PAUSES_MAX: Final = 64
"""Maximum factor of this pause, for a replica that answers checks and fails reads."""
BEHIND_SECONDS: Final = 0.25
"""Seconds for which a replica counts as lacking the end of a partition that readers wait for."""
STATEMENT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 6.0
"""The maximum seconds for a read, also from a server that no longer exists."""
CONNECT_SECONDS: Final = 2
STOP_SECONDS: Final = 1.0
"""How long the end of a check is waited for: a hub that stops does not wait for a frozen server."""
CONNECTIONS_MAX: Final = 10
"""Maximum number of readers of one replica at a time: others read from another one, or from the primary."""
DETECT_DEAD_NETWORK: Final[dict[str, Any]] = {
    "tcp_user_timeout": 15_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
"""TCP settings that detect a dead network within half a minute, unless the URL sets others; the system's defaults take
from a quarter of an hour to two hours."""
_UTF8: Final = {"client_encoding": "UTF8"}
"""Events are sent and received as the bytes that are stored, whatever the user's or the database's setting is."""
_BEGIN: Final = f"""BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL jit = off;
    SET LOCAL statement_timeout = {int(STATEMENT_SECONDS * 1000)}"""
_sql: Final = POSTGRES.statements
_log: Final = structlog.get_logger("penstock.replicas")

Connection = psycopg.Connection[tuple[Any, ...]]
Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


def parse_conninfo(url: str) -> tuple[str, str]:
    """Return *url* without a password, and the connection string for libpq."""
    parts = conninfo_to_dict(url)
    hosts, ports, name = (str(parts.get(each) or "") for each in ("host", "port", "dbname"))
    return format_postgres(hosts, ports, name), make_conninfo(**DETECT_DEAD_NETWORK | parts | _UTF8)


class ServerIdentity(NamedTuple):
    """Which database a connection leads to, and how far its server is."""

    is_standby: bool
    system: int
    """Identifier of the cluster, which its standbys share."""
    database: int
    """Object id of the database, which is the same on standbys."""
    events: int | None
    """Object id of the table of events; None: there is none."""
    position: int
    """End of the write-ahead log that is on disk, or that a standby has replayed."""

    @classmethod
    def read(cls, connection: Connection) -> "ServerIdentity":
        """Return the identity of the server that a connection leads to."""
        row = connection.execute(_sql["server_identity"]).fetchone()
        assert row is not None
        is_standby, system, database, events, position = row
        return cls(is_standby, system, database, events, int(position or 0))


class ReplicaTx:
    """Reads chunks of events on a connection to a replica: see `EventTx`."""

    def __init__(self, connection: Connection) -> None:
        self.log: LogRepository = PostgresLog(connection, [], PrimaryHistory())
        """Events that are in the database: a replica does not read files of the cold tier."""
        self.removal = RemovalRepository(SqlRunner(POSTGRES, connection))


class _ImpatientConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that closes if it waits for an answer at its deadline."""

    deadline = float("inf")

    def wait(self, gen: Generator[Any, Any, Result], *args: Any, **kwargs: Any) -> Result:
        """Run an exchange with the server: see psycopg."""
        return super().wait(self._limit(gen), *args, **kwargs)

    def _limit(self, gen: Generator[Any, Any, Result]) -> Generator[Any, Any, Result]:
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > self.deadline:
                    self.close()
                    raise psycopg.OperationalError(f"no answer within {ANSWER_SECONDS:g} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


class Replica:
    """One standby."""

    def __init__(self, url: str, history: PrimaryHistory, identify_primary: Callable[[], ServerIdentity]) -> None:
        try:
            self.url, self._conninfo = parse_conninfo(url)
        except psycopg.ProgrammingError:  # Its text may have the password.
            raise BadParameter(
                parameter="replica", value=show_url(url), allowed="postgresql://USER@HOST/DATABASE"
            ) from None
        self.reads = 0
        self._history = history
        self._identify_primary = identify_primary
        self._primary: ServerIdentity | None = None
        self._room = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self._idle: list[_ImpatientConnection] = []
        self._ends: dict[int, tuple[int, float]] = {}
        """By partition: the end that a reader has found too low, and until when that is believed."""
        self._changing = threading.Lock()
        self._reason: str | None = "it was not asked yet"
        """Why it is not used; None: it is."""
        self._retry_at = float("-inf")
        self._pauses = 1
        self._samples: list[tuple[float, int]] = []
        """Moments of the primary: when it was asked, and the end of its log."""
        self._current_at = float("-inf")
        """The last of these moments whose commits it has all replayed."""

    # State

    @property
    def is_used(self) -> bool:
        """True if readers may ask it."""
        return self._reason is None and time.monotonic() - self._current_at <= LAG_MAX

    def measure(self) -> ReplicaMeasurement:
        """Return how it does."""
        lag = time.monotonic() - self._current_at
        return ReplicaMeasurement(self.url, self.is_used, lag if lag < float("inf") else None, self.reads)

    def check(self) -> None:
        """Ask the primary and the replica how far they are, and use the replica if that is far enough.

        Raises:
            PenstockError: the primary cannot be asked.
            DatabaseUnsuitable: it is no standby of the primary, or its role may not read the events.
        """
        if time.monotonic() < self._retry_at:
            return
        at, primary = time.monotonic(), self._identify_primary()
        try:
            with self._lend() as connection:
                found = ServerIdentity.read(connection)
                self._check_identity(primary, found)
                if found.events is not None:
                    connection.execute("SELECT FROM penstock_event, penstock_partition, penstock_hole LIMIT 0")
        except psycopg.errors.InsufficientPrivilege as error:
            self._leave(error)
            raise DatabaseUnsuitable.of("replica-denied", replica=self.url, reason=_one_line(error)) from error
        except psycopg.Error as error:
            self._leave(error)
            return
        except DatabaseUnsuitable as error:
            self._leave(error)
            raise
        self._primary = primary
        self._note_lag(at, primary.position, found.position)
        lags = time.monotonic() - self._current_at > LAG_MAX
        self._change(f"it has not replayed what was committed {LAG_MAX:g} s ago" if lags else None)

    def _check_identity(self, primary: ServerIdentity, found: ServerIdentity) -> None:
        if (primary.system, primary.database) != (found.system, found.database):
            raise DatabaseUnsuitable.of("replica-of-another", replica=self.url)
        if not found.is_standby:
            raise DatabaseUnsuitable.of("replica-is-primary", replica=self.url)

    def _note_lag(self, at: float, position: int, replayed: int) -> None:
        samples = [*self._samples, (at, position)]
        reached = [when for when, end in samples if end <= replayed]
        self._current_at = max([self._current_at, *reached])
        self._samples = [each for each in samples if each[0] > at - 2 * LAG_MAX and each[0] > self._current_at]

    def _leave(self, error: Exception, pauses: int = 1) -> None:
        """Leave the replica alone for a while."""
        self._retry_at = time.monotonic() + pauses * PAUSE_SECONDS
        self._change(_one_line(error))
        while self._idle:
            with suppress(IndexError):  # Another thread has taken it.
                self._idle.pop().close()

    def _change(self, reason: str | None) -> None:
        with self._changing:
            before, self._reason = self._reason, reason
        if reason is None and before is not None:
            _log.info("a replica is used", replica=self.url)
        elif reason is not None and before in (None, "it was not asked yet"):
            _log.warning("a replica is not used: its reads go to the primary", replica=self.url, reason=reason)

    # Reading

    def is_behind(self, partition_id: int, stop: int) -> bool:
        """Return whether the replica lacked events before *stop* when it was asked a moment ago."""
        end, until = self._ends.get(partition_id, (0, 0.0))
        return stop > end and time.monotonic() < until

    def read(self, partition_id: int, start: int, stop: int, read: Callable[[EventTx], Chunk | None]) -> Chunk | None:
        """Call *read* if the replica has the range: see `Replicas.read`."""
        if not self._room.acquire(blocking=False):
            return None
        try:
            with self._lend() as connection:
                if not self._has(connection, partition_id, start, stop):
                    return None
                found = read(ReplicaTx(connection))
        except psycopg.errors.SerializationFailure:
            return None  # A conflict with recovery: the next read may have none.
        except psycopg.Error as error:
            self._leave(error, self._pauses)
            self._pauses = min(PAUSES_MAX, 2 * self._pauses)
            return None
        finally:
            self._room.release()
        if found is not None:
            with self._changing:
                self.reads += 1
                self._pauses = 1
        return found

    def _has(self, connection: Connection, partition_id: int, start: int, stop: int) -> bool:
        """Begin a transaction; return whether its snapshot has the range, and the primary's removals from it."""
        with psycopg.ClientCursor(connection) as cursor:  # One exchange.
            cursor.execute(f"{_BEGIN};\n{_sql['replica_state']}", {"partition_id": partition_id})
            while cursor.nextset():
                pass
            row = cursor.fetchone()
        assert row is not None
        is_standby, system, database, events, timeline, next_offset, removals, cold_stop = row
        primary = self._primary
        if primary is None or (is_standby, system, database) != (True, primary.system, primary.database):
            raise psycopg.OperationalError("it is not a standby of the primary any more")
        if (events, timeline) != (primary.events, self._history.timeline) or next_offset is None:
            return False  # It has not replayed the table, the partition, or the end of the last timeline.
        if next_offset < stop:
            self._ends[partition_id] = next_offset, time.monotonic() + BEHIND_SECONDS
            return False
        return bool(start >= cold_stop and removals >= self._history.removals(partition_id))

    @contextmanager
    def _lend(self) -> Iterator[Connection]:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        connection.deadline = time.monotonic() + ANSWER_SECONDS
        try:
            yield connection
        finally:
            self._give_back(connection)

    def _give_back(self, connection: _ImpatientConnection) -> None:
        with suppress(psycopg.Error):
            connection.rollback()
        if connection.closed or connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.close()
        else:
            self._idle.append(connection)

    def _connect(self) -> _ImpatientConnection:
        connection = _ImpatientConnection.connect(
            self._conninfo, autocommit=True, prepare_threshold=None, connect_timeout=CONNECT_SECONDS
        )
        return_text_as_bytes(connection)
        return connection

    def close(self) -> None:
        """Use it no more, and close its connections."""
        self._retry_at = float("inf")
        self._reason = "it is closed"
        while self._idle:
            self._idle.pop().close()


class ReplicaPool:
    """The standbys of one database: see `penstock.storage.store.Replicas`."""

    def __init__(
        self, urls: Sequence[str], history: PrimaryHistory, identify_primary: Callable[[], ServerIdentity]
    ) -> None:
        """Connect to none of *urls* yet.

        Raises:
            BadParameter: one of them is malformed.
        """
        self.missed = 0
        self._replicas = [Replica(url, history, identify_primary) for url in dict.fromkeys(urls)]
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()
        self._turn = 0

    def start(self) -> None:
        """Check all replicas, and begin to use those that answer: see `Replicas.start`."""
        if self._threads:
            return
        for each in self._replicas:
            each.check()
        for each in self._replicas:
            thread = threading.Thread(target=self._watch, args=(each,), name="penstock-replica", daemon=True)
            self._threads.append(thread)
            thread.start()

    def read(self, partition_id: int, start: int, stop: int, read: Callable[[EventTx], Chunk | None]) -> Chunk | None:
        """Call *read* on the next replica that has the range: see `Replicas.read`."""
        self._turn = turn = (self._turn + 1) % len(self._replicas)
        for each in (*self._replicas[turn:], *self._replicas[:turn]):
            if each.is_used and not each.is_behind(partition_id, stop):
                found = each.read(partition_id, start, stop, read)
                if found is not None:
                    return found
        self.missed += 1
        return None

    def measure(self) -> Sequence[ReplicaMeasurement]:
        """Return how each replica does."""
        return [each.measure() for each in self._replicas]

    def close(self) -> None:
        """Stop using replicas; harmless when repeated."""
        self._stop.set()
        for each in self._threads:
            each.join(STOP_SECONDS)
        for replica in self._replicas:
            replica.close()

    def _watch(self, replica: Replica) -> None:
        while not self._stop.wait(CHECK_INTERVAL):
            with suppress(
                PenstockError, psycopg.Error
            ):  # Noted by the replica; or the primary is away, which others report.
                replica.check()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
