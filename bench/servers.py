"""Servers as real processes, and what they cost."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from bench.place import BUILD, ROOT
from penstock.testing.port import free_port

START_SECONDS_MAX: Final = 30.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Server(NamedTuple):
    """A server of ours that is no hub from the command line."""

    port: int
    pid: int


@contextmanager
def serving(module: str, *given: object) -> Iterator[Server]:
    """Run `python -m MODULE PORT GIVEN…` until the block ends; what it says goes into build/servers.log.

    Raises:
        RuntimeError: it does not listen within half a minute.
    """
    port = free_port()
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "servers.log").open("wb") as log:
        program = [sys.executable, "-m", module, str(port), *map(str, given)]
        process = subprocess.Popen(program, cwd=ROOT, stdout=log, stderr=log)
    try:
        _wait_until_it_listens(port, process)
        yield Server(port, process.pid)
    finally:
        process.kill()
        process.wait()


def cpu_seconds(pid: int) -> float:
    """Return the processor time that the process has taken so far, in the kernel too, without that of its children."""
    return sum(_ticks(pid)[:2]) / _TICKS


def family_cpu_seconds(pid: int) -> float:
    """The same with its children, those that have ended included."""
    ticks = sum(_ticks(pid))
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split():
        with suppress(FileNotFoundError):  # It has just ended.
            ticks += sum(_ticks(int(child)))
    return ticks / _TICKS


def resident_bytes(pid: int) -> int:
    """Return how much memory the process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _ticks(pid: int) -> list[int]:
    """Return user and kernel time, and both of the children that have ended."""
    return [
        int(field) for field in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:15]
    ]


def _wait_until_it_listens(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{process.args!r} does not start") from None
            time.sleep(0.02)
        else:
            return
