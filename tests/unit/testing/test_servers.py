"""Free ports, hubs in processes of their own, and PostgreSQL that ends with its guardian."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.testing.live_hub import LiveHub
from penstock.testing.port import free_port
from penstock.testing.postgres import find_programs, guard


def test_free_port_can_be_bound() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        assert server.getsockname()[1]


def test_free_port_is_none_that_connections_are_given() -> None:
    ports = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first, last = map(int, ports.read_text().split()) if ports.exists() else (49_152, 65_535)
    found = {free_port() for _ in range(50)}

    assert len(found) > 1
    assert first <= 20_000 or not any(first <= port <= last for port in found)


def test_live_hub_has_a_url_before_its_start() -> None:
    hub = LiveHub("sqlite:///shop.db", port=4711)

    assert hub.url == "http://127.0.0.1:4711"
    with pytest.raises(AssertionError, match="not running"):
        hub.pid  # noqa: B018


def test_stop_of_a_hub_that_does_not_run_returns_zero() -> None:
    hub = LiveHub("sqlite:///shop.db")

    hub.kill()
    assert hub.stop() == 0


def test_programs_on_the_path_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "initdb"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert find_programs() == tmp_path


def test_guarded_process_ends_with_its_guardian() -> None:
    """Its guardian is this test here: the pipe that only it holds is closed for it when it dies."""
    program = [sys.executable, "-c", "input()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE) as guarded, guard(guarded.pid) as guardian:
        assert guarded.poll() is None
        assert guardian.stdin

        guardian.stdin.close()

        assert guarded.wait(300) == -signal.SIGQUIT
