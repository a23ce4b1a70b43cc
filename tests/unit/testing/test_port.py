import socket

from penstock.testing.port import free_port


def test_free_port_can_be_bound() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        assert server.getsockname()[1]
