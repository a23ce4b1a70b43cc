"""A port to listen on."""

import socket


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
