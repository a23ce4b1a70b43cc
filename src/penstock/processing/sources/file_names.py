"""The files that paths and patterns name, each under one name."""

import threading
from collections.abc import Sequence
from glob import glob, has_magic
from pathlib import Path

from penstock.errors import BadParameter


class FileNames:
    """What is there of given paths and patterns. A file that has several names in them goes by one.

    That is the one without links, if there is such, else the first; and it stays the same as long as it is there.

    Args:
        given: Paths of files, or patterns.
    """

    def __init__(self, given: Sequence[str]) -> None:
        self._given = given
        self._real: dict[str, str] = {}
        """Where names lead to."""
        self._links: set[str] = set()
        """The names that lead elsewhere."""
        self._chosen: dict[str, str] = {}
        """By where they lead to, the names that files go by."""
        self._turn = threading.Lock()

    def now(self) -> list[str]:
        """Return the names of the files that there are now, sorted.

        Raises:
            BadParameter: one cannot stand in a checkpoint.
        """
        found = dict.fromkeys(each for path in self._given for each in _files_at(path))
        with self._turn:
            for name in found.keys() - self._real.keys():
                self._learn(name)
            for name in sorted(found, key=self._links.__contains__):
                real = self._real[name]
                if self._chosen.get(real) not in found:
                    self._chosen[real] = name
            return sorted({self._chosen[self._real[name]] for name in found})

    def _learn(self, name: str) -> None:
        path = Path(name)
        try:
            name.encode()
        except UnicodeEncodeError:
            allowed = "files whose names are UTF-8, since checkpoints hold them: give it another"
            raise BadParameter(parameter="path", value=ascii(name), allowed=allowed) from None
        self._real[name] = str(path.resolve())
        if self._real[name] != str(path.absolute()):
            self._links.add(name)


def is_file(path: str) -> bool:
    """Tell whether a file is there; what can be no path, such as one that is too long, is none."""
    try:
        return Path(path).is_file()
    except OSError:
        return False


def _files_at(path: str) -> list[str]:
    """Return the files that a path or a pattern names; a file whose name looks like a pattern is that file."""
    if is_file(path):
        return [path]
    found = glob(path, recursive=True) if has_magic(path) else []  # noqa: PTH207 - It may be absolute.
    return sorted(each for each in found if is_file(each))
