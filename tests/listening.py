"""Servers that tests and benchmarks start: until they listen, and until they have ended."""

import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

START_SECONDS_MAX: Final = 300.0
STOP_SECONDS_MAX: Final = 20


def wait_until_it_listens(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    """Wait until a server that was just started takes connections; what it says is in *log*."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        assert process.poll() is None, f"it has ended: {log.read_text()}"
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError(f"it does not listen: {log.read_text()}")


def stop_process(process: "subprocess.Popen[bytes]") -> None:
    """Have a server end, and kill it if it takes too long."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
