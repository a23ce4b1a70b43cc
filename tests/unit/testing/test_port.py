import socket
from pathlib import Path

from penstock.testing.port import free_port


def test_free_port_can_be_bound() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        assert server.getsockname()[1]


def test_free_port_is_none_that_connections_are_given() -> None:
    ports = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first, last = map(int, ports.read_text().split()) if ports.exists() else (49_152, 65_535)
    found = {free_port() for _ in range(50)}

    assert len(found) > 1
    assert first <= 20_000 or not any(first <= port <= last for port in found)
