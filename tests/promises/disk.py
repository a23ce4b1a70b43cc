"""A disk so small that it can be filled."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MIB = 1 << 20


@contextmanager
def small_disk(directory: Path, size: int, owner: int | None = None) -> Iterator["SmallDisk"]:
    """Mount a file system of *size* bytes; skip the test, loudly, where that is not allowed."""
    directory.mkdir()
    options = f"size={size}" + ("" if owner is None else f",uid={owner}")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)], check=False, capture_output=True, text=True
    )
    if done.returncode:
        directory.rmdir()
        pytest.skip(
            "NOT TESTED: whether a full disk loses nothing. A small disk has to be mounted (see CONTRIBUTING.md): "
            f"{done.stderr.strip()}"
        )
    try:
        yield SmallDisk(directory)
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


class SmallDisk:
    """A mounted small disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self, leave: int) -> None:
        """Take all the room but *leave* bytes."""
        room = os.statvfs(self.path)
        with self._ballast.open("wb") as ballast:
            ballast.write(bytes(max(0, room.f_bavail * room.f_frsize - leave)))

    def make_room(self) -> None:
        """Give the room back."""
        self._ballast.unlink()
