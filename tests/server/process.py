"""What a hub's process holds, so that a test can tell whether anything is left behind."""

from pathlib import Path

from penstock.server.state import WORKERS
from penstock.testing.live_hub import LiveHub

MIB = 1 << 20
KEPT_FILES = 3 * WORKERS
"""Each worker may come to keep a connection to the database, of three files; a leak would be of one file each time."""


class Process:
    """What a process holds, as the system counts it."""

    def __init__(self, hub: LiveHub) -> None:
        self._at = Path(f"/proc/{hub.pid}")

    def threads(self) -> int:
        return len(list((self._at / "task").iterdir()))

    def files(self) -> int:
        return len(list((self._at / "fd").iterdir()))

    def memory(self) -> int:
        (line,) = [line for line in (self._at / "status").read_text().splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1]) * 1024
