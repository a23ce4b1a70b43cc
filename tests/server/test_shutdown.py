"""A hub that is stopped ends waits at once and finishes the requests under way."""

import json
import signal
import socket
import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from penstock.testing.live_hub import live_hub
from tests.served import client_of, create, until


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_and_sigint_stop_the_hub_and_end_waits_with_cursors(migrated_url: str, number: signal.Signals) -> None:
    with live_hub(migrated_url) as hub, client_of(hub) as http, ThreadPoolExecutor(8) as pool:
        feed = create(http)
        futures = [pool.submit(feed.read, 1, "_last", wait=60) for _ in range(5)]
        until(lambda: feed.waiters() == 5)
        subprocess.run(["kill", f"-{int(number)}", str(hub.pid)], check=True)
        pages = [future.result(timeout=300) for future in futures]
        assert all(page.events == [] and page.cursor for page in pages)
        assert hub.stop() == 0


def test_events_acknowledged_during_the_stop_are_stored_once(sqlite_url: str) -> None:
    acknowledged: list[int] = []
    with live_hub(sqlite_url) as hub, client_of(hub) as http:
        feed = create(http)

        def publish(worker: int) -> None:
            with client_of(hub) as mine:
                for number in range(worker, 100_000, 4):
                    try:
                        answer = mine.post(feed.path, content=b'{"data":{"id":%d}}\n' % number)
                    except httpx2.TransportError:
                        return
                    if answer.status_code != 200:
                        assert answer.status_code == 503
                        assert answer.headers["retry-after"]
                        return
                    acknowledged.append(number)

        with ThreadPoolExecutor(4) as pool:
            futures = [pool.submit(publish, worker) for worker in range(4)]
            until(lambda: len(acknowledged) > 40)
            assert hub.stop() == 0
            for future in futures:
                future.result(timeout=300)
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
        stored = [
            int(data.split(":")[1].rstrip("}")) for (data,) in connection.execute("SELECT data FROM penstock_event")
        ]
    connection.close()
    assert set(acknowledged) <= set(stored)
    assert len(stored) == len(set(stored))


def test_page_under_way_is_finished(sqlite_url: str) -> None:
    with live_hub(sqlite_url) as hub, client_of(hub) as http:
        feed = create(http)
        line = b'{"data":{"text":"' + b"x" * 4_000 + b'"}}\n'
        assert feed.post(line * 5_001).json()["count"] == 5_001
        with ThreadPoolExecutor(1) as pool, http.stream(
            "GET", feed.path, params={"n": 1, "cursor0": "_first", "pagesizehint": 100_000}
        ) as answer:  # fmt: skip
            stopping = pool.submit(hub.stop)
            lines = [line for line in answer.iter_lines() if line]
            assert len(lines) == 5_002
            assert stopping.result(timeout=300) == 0


@pytest.mark.usefixtures("short_stop")
def test_client_that_takes_nothing_is_cut_off_without_an_error_in_the_log(sqlite_url: str, tmp_path: Path) -> None:
    with live_hub(sqlite_url, log=tmp_path / "log") as hub, client_of(hub) as http, socket.socket() as stuck:
        feed = create(http)
        for _ in range(3):
            assert feed.post(b'{"data":{"text":"%b"}}\n' % (b"x" * 4_000) * 2_000).status_code == 200
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        stuck.connect(("127.0.0.1", hub.port))
        stuck.sendall(
            f"GET {feed.path}?n=1&cursor0=_first&pagesizehint=100000 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        )
        assert stuck.recv(1_000).startswith(b"HTTP/1.1 200")
        assert hub.stop() == 0

    told = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["event"] for line in told if line["level"] == "warning"] == ["giving up on requests under way"]
    assert not [line for line in told if line["level"] == "error"]
