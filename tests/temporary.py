"""Where the temporary files of a test run lie: in memory, if there is room for them.

Hubs sync every commit to disk, and tests wait for that more than for anything else. No test cuts the power: what a test
kills are processes, and what they have written to a file in memory stays, too.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")
ROOM_BYTES: Final = 6 << 30
"""So much has to be free: several times what a run needs."""


def find_memory(environment: Mapping[str, str], memory: Path = MEMORY, room_bytes: int = ROOM_BYTES) -> Path | None:
    """Return the directory in memory; None if it lacks room, may not have programs, or another one is wanted."""
    if "TMPDIR" in environment or not memory.is_dir():
        return None
    runs_programs = not os.statvfs(memory).f_flag & os.ST_NOEXEC
    return memory if runs_programs and shutil.disk_usage(memory).free >= room_bytes else None


def use_memory() -> None:
    """Have this process and its children put temporary files into memory, if there is room."""
    if (memory := find_memory(os.environ)) is not None:
        os.environ["TMPDIR"] = tempfile.tempdir = str(memory)
