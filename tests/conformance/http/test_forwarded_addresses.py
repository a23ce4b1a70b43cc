"""A hub behind a real nginx knows each client by its own address, whatever the client claims."""

import json
import socket
from pathlib import Path

from penstock.testing.live_hub import live_hub
from tests.conformance.http.nginx import nginx
from tests.served import until

CLAIMED = "127.0.0.1, 198.51.100.66"


def ask(port: int, source: str) -> None:
    """Ask from the address *source* for a path of that name, and claim to be somebody else."""
    head = f"GET /from-{source} HTTP/1.1\r\nHost: hub\r\nX-Forwarded-For: {CLAIMED}\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=300, source_address=(source, 0)) as connection:
        connection.sendall(head.encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 404")


def read_addresses(log: Path) -> dict[str, str]:
    """Return the address in the access line of each path."""
    lines = map(json.loads, log.read_text(encoding="utf-8").splitlines())
    return {line["path"]: line["address"] for line in lines if line.get("path", "").startswith("/from-")}


def test_client_that_nginx_forwards_is_logged_by_its_own_address(tmp_path: Path) -> None:
    url, log = f"sqlite:///{tmp_path}/hub.db", tmp_path / "hub.log"
    options = ["--insecure", "--trusted-proxy", "127.0.0.1"]
    with live_hub(url, log=log, options=options) as hub, nginx(hub.port) as proxy:
        ask(proxy.whole, "127.0.0.2")
        ask(proxy.piecewise, "127.0.0.3")
        ask(hub.port, "127.0.0.4")
        until(lambda: len(read_addresses(log)) == 3)

    assert read_addresses(log) == {f"/from-127.0.0.{n}": f"127.0.0.{n}" for n in (2, 3, 4)}
