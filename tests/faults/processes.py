"""Find processes to be killed, in /proc."""

from contextlib import suppress
from pathlib import Path

PROCESSES = Path("/proc")


def living(session: int) -> list[int]:
    """Return the processes of a session, but for those that are dead and not yet asked what became of them."""
    found = []
    for entry in PROCESSES.glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, _, _, of, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(of) == session and state not in "ZX":
                found.append(int(entry.name))
    return found


def owner_of(line: tuple[int, int], session: int) -> int:
    """Return which process of a *session* has a connection on this machine, told by its port and the other end's.

    Its own port is not enough: other connections may have it at the same time, to other ports.
    """
    inode = _inode_of(line)
    for pid in living(session):
        with suppress(FileNotFoundError, ProcessLookupError):
            for entry in (PROCESSES / str(pid) / "fd").iterdir():
                with suppress(FileNotFoundError):
                    if str(entry.readlink()) == f"socket:[{inode}]":
                        return pid
    raise LookupError(f"nobody of session {session} has the connection {line}, of inode {inode}")


def _inode_of(line: tuple[int, int]) -> str:
    for row in (PROCESSES / "net" / "tcp").read_text().splitlines()[1:]:
        fields = row.split()
        if tuple(int(end.rpartition(":")[2], 16) for end in fields[1:3]) == line:
            return fields[9]
    raise LookupError(f"there is no connection {line}")


def parent_of(pid: int) -> int:
    """Return which process has started one."""
    return int((PROCESSES / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])


def children(pid: int) -> list[int]:
    """Return the processes that one has started, and that live."""
    found = []
    for entry in PROCESSES.glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, parent, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(parent) == pid and state not in "ZX":
                found.append(int(entry.name))
    return found
