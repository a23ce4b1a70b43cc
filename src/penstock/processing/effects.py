"""What a reaction publishes because of an event, and the id by which a repeat of it is recognised."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid5

from penstock.processing.parameters import check_kind, check_name
from penstock.processing.stream_event import APART, StreamEvent

__all__ = ["Effect", "effect_id"]

_IDS: Final = UUID("b6f0d1f4-5b55-5a0e-8a83-2b8f6f2a9d11")


@dataclass(frozen=True, slots=True)
class Effect:
    """An event that is to be published because of another one.

    Raises:
        BadParameter: the event type is no text, or the name or the key is none that there can be.
    """

    event_type: str
    """Where to."""
    data: Any
    """The event: of what `Client.publish` takes."""
    name: str = ""
    """What it is called among the effects of one event; by default as its event type. It has to stay the same."""
    key: str | None = None
    """Its key, where it is to have another one than its event type's partition key fields give."""

    def __post_init__(self) -> None:
        check_name("event_type", self.event_type)
        check_kind("name", self.name, str, "a text")
        if self.key is not None:
            check_kind("key", self.key, str, "a text, or None")

    @property
    def called(self) -> str:
        """Its name, or what stands for it."""
        return self.name or self.event_type


def effect_id(cause: StreamEvent | str, name: str) -> str:
    """Return the id of an effect, which is the same whenever it is brought about.

    Args:
        cause: The event, or its `eid`. Of an event that has none, its stream, what numbers that, and its index count.
        name: The effect's.

    Raises:
        BadParameter: one of them is none of these.

    >>> effect_id("8c7a2a7e-3f0c-4c57-8a4e-0d5f9f3a1b11", "payment.taken")
    '9968980e-de03-5cc3-9bb5-5d20f5b8c4b2'
    """
    check_kind("cause", cause, str | StreamEvent, "an event, or its eid")
    check_kind("name", name, str, "a text")
    return str(uuid5(_IDS, f"{cause if isinstance(cause, str) else _told(cause)}\n{name}"))


def _told(event: StreamEvent) -> str:
    eid = event.metadata.get("eid")
    if isinstance(eid, str):
        return eid
    place = f"{event.stream}\n{event.index}"
    numbering, _, _ = event.numbering.partition(APART)  # It may have been handled before it was parked.
    return f"{place}\n{numbering}" if numbering else place
