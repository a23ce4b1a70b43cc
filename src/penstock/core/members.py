"""The members that a definition can have, and what others in one were probably meant to be."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from penstock.core.walk import Pointer

MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset(
        [
            *("name", "owning_application", "category", "schema", "enrichment_strategies", "compatibility_mode"),
            *("partition_strategy", "partition_key_fields", "partition_count", "default_statistic", "max_event_bytes"),
            *("ordering_key_fields", "ordering_instance_ids", "options", "cleanup_policy", "audience"),
            *("authorization", "event_owner_selector", "annotations", "labels", "created_at", "updated_at"),
        ]
    ),
    "schema": frozenset(["type", "schema", "version", "created_at"]),
    "options": frozenset(["retention_time", "publishing", "evolution"]),
    "default_statistic": frozenset(["messages_per_minute", "message_size", "read_parallelism", "write_parallelism"]),
    "authorization": frozenset(["admins", "readers", "writers"]),
    "event_owner_selector": frozenset(["type", "name", "value"]),
}
"""Those that mean something, of the definition itself and of the objects in it whose members are not the owner's."""


class Stranger(NamedTuple):
    """A member that means nothing here. It is kept nevertheless, so that clients may send what they know."""

    at: Pointer
    meant: str | None
    """Which one was probably meant; None: none looks like it."""

    def __str__(self) -> str:
        asks = f"; is it {self.meant}?" if self.meant else ""
        return f"{'.'.join(self.at)} is a member that means nothing to a hub{asks}"


def strangers(definition: Mapping[str, Any]) -> Iterator[Stranger]:
    """Yield the members of a *definition*, in Nakadi's shape, that are not known here.

    >>> [str(each) for each in strangers({"name": "a", "partition_stratgy": "hash"})]
    ['partition_stratgy is a member that means nothing to a hub; is it partition_strategy?']
    """
    for within, known in MEMBERS.items():
        held = definition.get(within) if within else definition
        if isinstance(held, Mapping):
            at = (within,) if within else ()
            yield from (Stranger((*at, name), _meant(name, within)) for name in held if name not in known)


def _meant(name: str, within: str) -> str | None:
    """Return the member that looks most like *name*: one beside it, or one of that very name elsewhere."""
    known = MEMBERS[within]
    for other, members in MEMBERS.items():
        if other != within and name in members and other != "schema":
            return f"{other}.{name}" if other else name
    close = get_close_matches(name.lower(), known, 1)
    return ".".join(filter(None, [within, *close])) if close else None
