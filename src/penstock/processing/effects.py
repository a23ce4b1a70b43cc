"""The events that a handler has published because of others, and their ids. Spark's executors import this module."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from uuid import UUID, uuid5

from penstock.processing.parameters import check_kind, check_name
from penstock.processing.stream_event import APART, StreamEvent

__all__ = ["Effect", "Effects", "effect_id"]

_IDS: Final = UUID("b6f0d1f4-5b55-5a0e-8a83-2b8f6f2a9d11")


@dataclass(frozen=True, slots=True)
class Effect:
    """An event to publish because of another one.

    Raises:
        BadParameter: the event type is no text, or the name or the key is invalid.
    """

    event_type: str
    """The event type to publish to."""
    data: Any
    """The event, as `Client.publish` takes it."""
    name: str = ""
    """Its name among the effects of one event; by default its event type. It must stay the same."""
    key: str | None = None
    """Its key; None: the values of its event type's partition key fields."""

    def __post_init__(self) -> None:
        check_name("event_type", self.event_type)
        check_kind("name", self.name, str, "a text")
        if self.key is not None:
            check_kind("key", self.key, str, "a text, or None")

    @property
    def resolved_name(self) -> str:
        """Its name, or by default its event type."""
        return self.name or self.event_type


def effect_id(cause: StreamEvent | str, name: str) -> str:
    """Return the id of an effect, which is the same each time the effect is published.

    Args:
        cause: The event, or its `eid`. Without an `eid`, the id depends on the event's stream, numbering and index.
        name: The effect's name.

    Raises:
        BadParameter: an argument is of another kind.

    >>> effect_id("8c7a2a7e-3f0c-4c57-8a4e-0d5f9f3a1b11", "payment.taken")
    '9968980e-de03-5cc3-9bb5-5d20f5b8c4b2'
    """
    check_kind("cause", cause, str | StreamEvent, "an event, or its eid")
    check_kind("name", name, str, "a text")
    return str(uuid5(_IDS, f"{cause if isinstance(cause, str) else _identify(cause)}\n{name}"))


def _identify(event: StreamEvent) -> str:
    eid = event.metadata.get("eid")
    if isinstance(eid, str):
        return eid
    place = f"{event.stream}\n{event.index}"
    numbering, _, _ = event.numbering.partition(APART)  # It may have been handled before it was parked.
    return f"{place}\n{numbering}" if numbering else place


Effects: TypeAlias = Callable[[StreamEvent], Iterable[Effect] | Effect | None]
"""Returns the effects of an event; always the same for the same event."""
