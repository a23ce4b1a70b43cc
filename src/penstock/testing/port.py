"""A port to listen on."""

import random
import socket
from pathlib import Path
from typing import Final

_LOWEST: Final = 10_000
_FOR_CONNECTIONS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST_FOR_CONNECTIONS: Final = 32_768
_choose: Final = random.SystemRandom().randrange
"""Tests seed the other generator, with the same number in each process."""


def free_port() -> int:
    """Return a port of the loopback interface that is not in use.

    The port is outside the system's range for outgoing connections if possible: a connection could take a port of that
    range before a server listens on it.
    """
    for _ in range(100):
        try:
            with socket.create_server(("127.0.0.1", _draw())) as server:
                port: int = server.getsockname()[1]
                return port
        except OSError:  # It is taken.
            continue
    raise OSError("no port of the loopback interface is free")


def _draw() -> int:
    """Return a port; 0, for which the system chooses one, if it gives nearly all of them to connections."""
    try:
        first = int(_FOR_CONNECTIONS.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        first = _FIRST_FOR_CONNECTIONS
    return _choose(_LOWEST, first) if first > 2 * _LOWEST else 0
