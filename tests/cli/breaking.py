"""A port before a server that is open for some connections, and then closed."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def open_for(port: int, connections: int) -> Iterator[int]:
    """Yield a port that leads to *port* for so many connections, and from then on is closed."""
    listener = socket.create_server(("127.0.0.1", 0))
    led: list[threading.Thread] = []

    def open_door() -> None:
        with listener, contextlib.suppress(OSError):
            for _ in range(connections):
                theirs, _ = listener.accept()
                led.append(threading.Thread(target=_lead, args=(theirs, port)))
                led[-1].start()

    door = threading.Thread(target=open_door)
    door.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        door.join()
        for each in led:
            each.join()


def _lead(theirs: socket.socket, port: int) -> None:
    with theirs, socket.create_connection(("127.0.0.1", port)) as ours:
        back = threading.Thread(target=_pump, args=(ours, theirs))
        back.start()
        _pump(theirs, ours)
        back.join()


def _pump(given: socket.socket, taken: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := given.recv(65_536):
            taken.sendall(data)
    for each in (given, taken):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
