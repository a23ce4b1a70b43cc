"""Members of a definition that the hub stores and shows, and that have no effect yet."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

_ANYBODY: Final = "whoever reaches the hub may read, publish and change all"
_NEVER_REMOVED: Final = "no event is removed while its event type exists"
DELETIONS: Final = f"deletions have no effect yet: {_NEVER_REMOVED}"
ADMINISTRATORS: Final = f"administrators have no effect yet: {_ANYBODY}"


class WithoutEffect(NamedTuple):
    """A member of a definition that has no effect yet."""

    field: str
    """As errors name it, such as `options.retention_time`."""
    reason: str

    def __str__(self) -> str:
        return f"{self.field} has no effect yet: {self.reason}"


def without_effect(given: Mapping[str, Any]) -> Iterator[WithoutEffect]:
    """Yield the members of a definition, as its owner has *given* it, that have no effect yet.

    The definition is valid, and one of an event type or a subscription.

    >>> [str(each) for each in without_effect({"options": {"retention_time": 86400000}})]
    ['options.retention_time has no effect yet: no event is removed while its event type exists']
    """
    if given.get("authorization") is not None:
        yield WithoutEffect("authorization", _ANYBODY)
    if given.get("event_owner_selector") is not None:
        yield WithoutEffect("event_owner_selector", _ANYBODY)
    if (given.get("options") or {}).get("retention_time") is not None:
        yield WithoutEffect("options.retention_time", _NEVER_REMOVED)
    if str(given.get("cleanup_policy") or "delete").lower() != "delete":
        yield WithoutEffect("cleanup_policy", f"{_NEVER_REMOVED}, also where a later one has its compaction key")
