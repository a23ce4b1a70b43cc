"""Tells which failures of a database pass by themselves, and which of a transaction nobody in it is to blame for.

Errors are known by the names of their classes, which drivers share, and by SQLSTATE: so no driver need be there.
"""

from typing import Any, Final

_KINDS: Final = frozenset(["OperationalError", "InterfaceError"])
"""What drivers call it, and derive from, when a database does not answer, is busy, or has no room."""
_WRONG: Final = "SQLITE_ERROR"
"""What SQLite calls a statement that is wrong, for which Python has the same class as for a database that is away."""
_CLASSES: Final = frozenset(["08", "53", "57", "58"])
"""Of SQLSTATE: connections, resources, what an operator does, and the system. Not 54, limits, which stay."""
_CHOSEN: Final = frozenset(["40001", "40P01"])
"""Transactions were in each other's way, and this one was chosen to give way."""
_READ_ONLY: Final = "25006"
"""As after a failover, on who was the primary before."""
_SQLITE_READ_ONLY: Final = "SQLITE_READONLY"
"""Likewise of a file, as where a disk was mounted anew."""
_OVERDUE: Final = frozenset(["25P03", "25P04"])
"""A transaction was ended since it lasted, or was left alone, for too long."""
_LOCKED: Final = "55P03"
_PASSING: Final = _CHOSEN | _OVERDUE | {_READ_ONLY, _LOCKED}
_ENDED: Final = frozenset(["57P01", "57P02", "57P03"])
"""The server is shut down, has crashed, or starts: sessions end, whatever goes on in them."""


def is_passing(error: BaseException) -> bool:
    """Tell whether a database has failed in a way that can pass: what was wanted may succeed later, unchanged."""
    state = _state(error)
    if state:
        return state[:2] in _CLASSES or state in _PASSING
    is_of_kind = any(each.__name__ in _KINDS for each in type(error).__mro__)
    return is_of_kind and getattr(error, "sqlite_errorname", "") != _WRONG


def is_nobodys(error: BaseException) -> bool:
    """Tell whether an error itself says that no statement of the transaction is to blame that it has ended.

    There is no connection, the server goes or is only to be read, or the transaction was chosen to give way to another.
    """
    state = _state(error)
    if not state:  # Drivers keep what they could not connect by; what they say elsewhere may be of a statement.
        is_read_only = getattr(error, "sqlite_errorname", "").startswith(_SQLITE_READ_ONLY)
        return is_read_only or getattr(error, "pgconn", None) is not None
    return state[:2] == "08" or state in _ENDED or state in _CHOSEN or state == _READ_ONLY


def is_overdue(error: BaseException) -> bool:
    """Tell whether a transaction was ended for its length, which is the doing of who was in it."""
    return _state(error) in _OVERDUE


def is_broken(connection: Any) -> bool:
    """Tell whether the other side has ended a connection; not whether it was closed here."""
    return bool(getattr(connection, "broken", False))


def _state(error: BaseException) -> str:
    return getattr(error, "sqlstate", None) or ""
