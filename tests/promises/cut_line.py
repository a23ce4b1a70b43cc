"""A line to PostgreSQL that is cut at a COMMIT."""

import socket
import struct
import threading
from contextlib import suppress
from typing import Literal, Self

from psycopg.conninfo import conninfo_to_dict

Moment = Literal["before", "after", "late"]
"""When the hub loses the connection, and what becomes of the COMMIT: it never arrives, it has been carried out, or it
arrives later, when it is let go."""
HELD = "held"
"""The connection is not lost at all, but the COMMIT arrives only when it is let go."""

COMMIT = b"COMMIT\0"
"""The end of the message that commits: alone, or behind the last statements of the transaction."""
TRANSACTION_ENDS = (COMMIT, b"ROLLBACK\0")
ASKS_FOR_ENCRYPTION = (80877103, 80877104)


class Cut:
    """A cut to come: the next COMMIT of a transaction in which *having* was said."""

    def __init__(self, moment: str, having: bytes) -> None:
        self.moment = moment
        self.having = having
        self.made = threading.Event()
        """Set once the hub has lost the connection, or its COMMIT is held."""
        self.let_go = threading.Event()
        """Set by the test, so that a late COMMIT goes on its way."""


class CutLine:
    """Passes on what hub and database say to each other, and cuts a connection where it is told to."""

    def __init__(self, url: str) -> None:
        parts = conninfo_to_dict(url)
        self._target = (str(parts["host"]), int(parts["port"] or 5432))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"postgresql://postgres@127.0.0.1:{self._listener.getsockname()[1]}/{parts['dbname']}"
        self._guard = threading.Lock()
        self._cut: Cut | None = None
        self._calls: list[_Call] = []
        self._answering = threading.Thread(target=self._answer, daemon=True)

    def __enter__(self) -> Self:
        self._answering.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._answering.join()
        for call in self._calls:
            call.end()

    def cut(self, moment: str, having: bytes) -> Cut:
        """Cut, once, at the next COMMIT of a transaction in which *having* was said."""
        with self._guard:
            self._cut = Cut(moment, having)
            return self._cut

    def take(self, said: bytes) -> Cut | None:
        """Return the cut that is due in a transaction in which *said* was said, and forget it."""
        with self._guard:
            if self._cut is None or self._cut.having not in said:
                return None
            due, self._cut = self._cut, None
            return due

    def _answer(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
            else:
                self._calls.append(_Call(self, client, server))


class _Call:
    """One connection: two threads, one for each direction."""

    def __init__(self, line: CutLine, client: socket.socket, server: socket.socket) -> None:
        self._line = line
        self._client = client
        self._server = server
        self._said = b""
        self._due: Cut | None = None
        """A cut whose answer is not for the hub."""
        self._holding: Cut | None = None
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._ask, self._reply)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        if self._holding is not None:
            self._holding.let_go.set()
        _close(self._client, self._server)
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        with suppress(OSError, EOFError):
            while self._greeting():
                pass
            while True:
                kind = _exactly(self._client, 1)
                size = _exactly(self._client, 4)
                words = _exactly(self._client, struct.unpack("!i", size)[0] - 4)
                if kind in b"QP":
                    self._said += words
                if kind == b"Q" and words.endswith(COMMIT) and (due := self._line.take(self._said)):
                    if due.moment != HELD:
                        self._commit(due, kind + size + words)
                        return
                    due.made.set()
                    self._holding = due
                    due.let_go.wait()
                if kind == b"Q" and words.endswith(TRANSACTION_ENDS):
                    self._said = b""
                self._server.sendall(kind + size + words)
        _close(self._client, self._server)

    def _greeting(self) -> bool:
        """Pass on what a client says before its messages have kinds; tell whether more of that comes."""
        size = _exactly(self._client, 4)
        words = _exactly(self._client, struct.unpack("!i", size)[0] - 4)
        self._server.sendall(size + words)
        return struct.unpack("!i", words[:4])[0] in ASKS_FOR_ENCRYPTION

    def _commit(self, due: Cut, commit: bytes) -> None:
        self._due = self._holding = due
        if due.moment == "after":
            self._server.sendall(commit)  # The answer ends the call.
            return
        _close(self._client)
        due.made.set()
        if due.moment == "late":
            due.let_go.wait()
            self._server.sendall(commit)
        else:
            _close(self._server)

    def _reply(self) -> None:
        with suppress(OSError):
            while words := self._server.recv(1 << 16):
                if self._due is not None:
                    break  # The answer to the COMMIT.
                self._client.sendall(words)
        _close(self._client, self._server)
        if self._due is not None:
            self._due.made.set()


def _exactly(source: socket.socket, size: int) -> bytes:
    taken = b""
    while len(taken) < size:
        more = source.recv(size - len(taken))
        if not more:
            raise EOFError
        taken += more
    return taken


def _close(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
