"""A line to a server that can be told to stand still, to be slow, to break, or to answer errors."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final, Literal

Mode = Literal["whole", "silent", "slow", "cut", "error"]
PAUSE_SECONDS: Final = 0.05
ERROR: Final = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class StorageLine:
    """Listens on a free port, and passes bytes on to a server, and back as its mode says.

    `silent` answers nothing, `slow` passes on a byte now and then, `cut` breaks in the middle of an answer, and `error`
    answers 503 by itself.
    """

    def __init__(self, port: int) -> None:
        self.reached = threading.Event()
        """Set once a request has met the present mode."""
        self._port = port
        self._mode: Mode = "whole"
        self._left = threading.Event()
        self._guard = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def set_mode(self, mode: Mode) -> None:
        """Break all connections, and treat later ones so."""
        with self._guard:
            self._mode, left, self._left = mode, self._left, threading.Event()
            left.set()
            self.reached.clear()
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Break all connections, and take no more."""
        self.set_mode("whole")
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), closing(client):
            server = socket.create_connection(("127.0.0.1", self._port))
            with closing(server):
                with self._guard:
                    mode, left = self._mode, self._left
                    self._open |= {client, server}
                try:
                    if mode in ("silent", "error"):
                        self._refuse(client, mode, left)
                        return
                    threading.Thread(target=self._pass, args=(client, server), daemon=True).start()
                    self._answer(server, client, mode, left)
                finally:
                    with self._guard:
                        self._open -= {client, server}

    def _refuse(self, client: socket.socket, mode: Mode, left: threading.Event) -> None:
        client.recv(1 << 16)
        self.reached.set()
        if mode == "silent":
            left.wait()
        else:
            client.sendall(ERROR)

    @staticmethod
    def _pass(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def _answer(self, server: socket.socket, client: socket.socket, mode: Mode, left: threading.Event) -> None:
        while data := server.recv(1 << 16):
            self.reached.set()
            if mode == "whole":
                client.sendall(data)
                continue
            if mode == "cut":
                client.sendall(data[: len(data) // 2])
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            for at in range(len(data)):
                client.sendall(data[at : at + 1])
                if left.wait(PAUSE_SECONDS):
                    return


@contextmanager
def storage_line(port: int) -> Iterator[StorageLine]:
    """Lend a line to the server at a port of this machine."""
    line = StorageLine(port)
    try:
        yield line
    finally:
        line.close()
