"""Between a publish and its answer the hub has SQLite's log on disk, as the calls of the operating system show."""

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier

import httpx2
import pytest

from penstock.testing.factories import an_event_type
from penstock.testing.live_hub import LiveHub, live_hub
from tests.promises.scene import NAME, until

WRITERS = 8
EVENTS_EACH = 25
TRACED = "trace=fdatasync,fsync,recvfrom,read,sendto,write,writev"
CALL = re.compile(
    r"^(?P<thread>\d+) +(?:<\.\.\. (?P<resumed>\w+) resumed>|(?P<name>\w+)\((?P<fd>\d+)<(?P<file>[^>]*)>)(?P<rest>.*)"
)

pytestmark = pytest.mark.exhaustive
"""In a container it may be forbidden to look at system calls."""


@contextmanager
def traced(hub: LiveHub, into: Path) -> Iterator[None]:
    """Write the system calls of the hub's process to a file."""
    strace = shutil.which("strace")
    assert strace, "install strace"
    command = [strace, "-f", "-y", "-s", "16", "-e", TRACED, "-o", str(into), "-p", str(hub.pid)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:

            def is_attached() -> bool:
                httpx2.get(f"{hub.url}/health/live")
                return into.exists() and '"HTTP/1.1 200' in into.read_text()

            until(is_attached, "the calls are traced")
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def unsynced(lines: list[str]) -> tuple[int, list[str]]:
    """Return the number of answered publishes, and those that were answered without a sync since they were received."""
    answered, wrong = 0, []
    begun: dict[str, tuple[str, int]] = {}
    received_at: dict[str, int] = {}
    syncs: list[tuple[int, int]] = []
    syncing: dict[str, int] = {}
    for at, line in enumerate(lines):
        call = CALL.match(line)
        if call is None:
            continue
        thread, name = call["thread"], call["resumed"] or call["name"]
        if call["resumed"]:
            fd, began_at = begun.pop(thread, ("", at))
        else:
            fd, began_at = f"{call['fd']}<{call['file']}>", at
        if "<unfinished" in call["rest"]:
            begun[thread] = fd, at
            if name in ("fdatasync", "fsync") and fd.endswith("-wal>"):
                syncing[thread] = at
        elif name in ("fdatasync", "fsync") and fd.endswith("-wal>") and call["rest"].endswith("= 0"):
            syncs.append((syncing.pop(thread, began_at), at))
        if name in ("recvfrom", "read") and '"POST /feeds' in call["rest"]:
            received_at[fd] = at
        elif name in ("sendto", "write", "writev") and '"HTTP/1.1 200' in call["rest"] and fd in received_at:
            since = received_at.pop(fd)
            answered += 1
            if not any(since < start and end < at for start, end in syncs):
                wrong.append(f"{lines[since]} … {line}")
    return answered, wrong


@pytest.mark.parametrize("writers", [1, WRITERS], ids=["alone", "together"])
def test_log_is_synced_between_each_publish_and_its_answer(tmp_path: Path, writers: int) -> None:
    trace = tmp_path / "calls"
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub, httpx2.Client(base_url=hub.url) as client:
        assert client.post("/event-types", json=an_event_type(NAME, partition_count=3)).status_code == 201
        assert client.post(f"/feeds/{NAME}", content=b'{"data":{}}').status_code == 200
        together = Barrier(writers)

        def write(writer: int) -> None:
            with httpx2.Client(base_url=hub.url) as connection:
                together.wait(60)
                for n in range(EVENTS_EACH):
                    body = json.dumps({"data": {"writer": writer, "n": n}})
                    assert connection.post(f"/feeds/{NAME}", content=body).status_code == 200

        with traced(hub, trace), ThreadPoolExecutor(writers) as threads:
            for done in [threads.submit(write, writer) for writer in range(writers)]:
                done.result()
    answered, wrong = unsynced(trace.read_text().splitlines())

    assert not wrong, wrong[:3]
    assert answered == writers * EVENTS_EACH


def test_answer_before_the_sync_is_found() -> None:
    sync, post, answer = (
        "7 fdatasync(9</hub.db-wal>) = 0",
        '7 recvfrom(5<socket:[1]>, "POST /feeds/a"..., 9, 0) = 9',
        ('7 sendto(5<socket:[1]>, "HTTP/1.1 200 OK"..., 9, 0, NULL, 0) = 9'),
    )
    begun, ended = "8 fdatasync(9</hub.db-wal> <unfinished ...>", "8 <... fdatasync resumed>) = 0"

    assert [len(unsynced(lines)[1]) for lines in ([post, sync, answer], [post, begun, ended, answer])] == [0, 0]
    assert [
        len(unsynced(lines)[1])
        for lines in ([sync, post, answer], [begun, post, ended, answer], [post, begun, answer, ended])
    ] == [1, 1, 1]
