"""Claims of callers to consumer groups: a group belongs to its first user."""

import re
from hashlib import blake2b
from typing import Final

from penstock.core.access import Claim
from penstock.core.group_names import is_group_name
from penstock.errors import AccessDenied
from penstock.storage.groups import GroupOwnership


def owner_of(by: Claim | None) -> str | None:
    """Return the owner of an object that *by* creates, as `DATA_TYPE:VALUE`; None: callers are not authenticated."""
    return None if by is None else by.owner


def check_owner(name: str, group: GroupOwnership | None, by: Claim | None) -> None:
    """Return unless the group belongs to another caller than *by*.

    Raises:
        AccessDenied: it does.
    """
    if not is_own(group, by):
        raise AccessDenied.of("not-owner", kind="consumer group", name=name)


def check_control(name: str, group: GroupOwnership, by: Claim | None) -> None:
    """Return if *by* may move and delete the group.

    Raises:
        AccessDenied: the group belongs to another caller or has no owner, and *by* is no administrator.
    """
    if by is not None and not by.controls(group.owner):
        raise AccessDenied.of("not-owner", kind="consumer group", name=name)


def is_own(group: GroupOwnership | None, by: Claim | None) -> bool:
    """Return whether *by* may use the group: *by* owns it, it has no owner, or it does not exist."""
    return by is None or group is None or by.holds(group.owner)


_OWN_NAME: Final = re.compile(r".* of (?P<owner>(?:service|user):.+|[0-9a-f]{32})")


def check_reserved(name: str, by: Claim | None) -> None:
    """Raise AccessDenied if *name* has the form that `name_own` gives to another caller's cursor set."""
    if by is None or (match := _OWN_NAME.fullmatch(name)) is None:
        return
    if match["owner"] not in (by.owner, _digest_owner(by.owner)) and not by.overrides:
        raise AccessDenied.of("not-owner", kind="consumer group", name=name)


def _digest_owner(owner: str) -> str:
    return blake2b(owner.encode(), digest_size=16).hexdigest()


def name_own(name: str, by: Claim | None) -> str:
    """Return the name of a caller's cursor set where another caller has a group of the set's own name."""
    assert by is not None
    own = f"{name} of {by.owner}"
    return own if is_group_name(own) else f"{name} of {_digest_owner(by.owner)}"
