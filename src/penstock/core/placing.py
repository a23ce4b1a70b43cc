"""Chooses the partition that an event falls in, by the event type's strategy (digest of Nakadi's contract, 3.6)."""

from collections.abc import Callable, Sequence
from typing import Any

from penstock.core.document import unlike
from penstock.core.event import NewEvent, check_key, is_key
from penstock.core.event_type import EventType
from penstock.core.partitioning import hash_partition, key_text, random_partitions
from penstock.core.walk import Path, key_path, shown
from penstock.errors import PartitionRefused

Place = Callable[[str | None, NewEvent, dict[str, Any], int], tuple[int, str | None]]
"""Chooses the partition by an event's key, what came with it, itself, and its line; returns its own key, too."""


class Placing:
    """Chooses the partitions of one event type's events."""

    def __init__(
        self, event_type: EventType, *, takes_keys: bool = True, only: int | None = None, among: int | None = None
    ) -> None:
        """Choose for *event_type*.

        *takes_keys*: in the way in which the events came they can have keys beside them. *only*: the partition that all
        were sent to. *among* the first so many partitions: all, unless that is said.
        """
        self._event_type = event_type
        self._takes_keys = takes_keys
        self._only = only
        self._count = event_type.partition_count if among is None else among
        self._by_name = {str(partition): partition for partition in range(self._count)}
        self._is_data = event_type.category == "data"
        prefix = "data." if self._is_data else ""
        self._paths: list[Path] = [key_path(prefix + field) for field in event_type.partition_key_fields]
        strategies: dict[str, Place] = {"hash": self._hashed, "user_defined": self._asked, "random": self._any}
        self.place = strategies[event_type.partition_strategy]
        self.is_random = event_type.partition_strategy == "random"

    def random(self, events: int) -> Sequence[int]:
        """Return a partition for each of so many events, any of them where they were sent to none."""
        return random_partitions(events, self._count) if self._only is None else [self._only] * events

    def _any(self, key: str | None, new: NewEvent, event: dict[str, Any], line: int) -> tuple[int, str | None]:  # noqa: ARG002
        return self.random(1)[0], key

    def _hashed(self, key: str | None, new: NewEvent, event: dict[str, Any], line: int) -> tuple[int, str]:  # noqa: ARG002
        texts: tuple[str, ...]
        if key is not None:
            texts = (key,)
        else:
            texts = self._texts(event, line)
            key = ",".join(texts)
            if not is_key(key):
                self._refuse_key(key, texts, line)
        partition = hash_partition(texts, self._count)
        if self._only not in (None, partition):
            reason = f"its key {key!r} belongs to partition {partition}, not to {self._only}"
            raise PartitionRefused(line=line, reason=f"{reason}: send it there, or to no partition in particular")
        return partition, key

    def _texts(self, event: dict[str, Any], line: int) -> tuple[str, ...]:
        try:
            return tuple([key_text(event, path) for path in self._paths])
        except KeyError:
            missing = f"is missing{' in its data' if self._is_data else ''}"
            reason = f"partition key field {self._missing(event)!r} {missing}; give the event the field"
            instead = ", or a key beside it" if self._takes_keys else ""
            raise PartitionRefused(line=line, reason=reason + instead) from None

    def _missing(self, event: dict[str, Any]) -> str:
        """Return the first field that *event* lacks, as its event type names it."""
        fields = zip(self._event_type.partition_key_fields, self._paths, strict=True)
        return next(field for field, path in fields if not _has(event, path))

    def _refuse_key(self, key: str, texts: Sequence[str], line: int) -> None:
        """Raise for the first of the fields that is no key by itself, or for all that make one too long a *key*."""
        places = list(map(shown, self._paths))
        for place, text in zip(places, texts, strict=True):
            check_key(text, line, PartitionRefused, where=place)
        check_key(key, line, PartitionRefused, where=", ".join(places))

    def _asked(self, key: str | None, new: NewEvent, event: dict[str, Any], line: int) -> tuple[int, str | None]:
        asked: object = new.partition
        if asked is None and type(metadata := event.get("metadata")) is dict:
            asked = metadata.get("partition")
        if asked is None:
            asked = self._only
        place = self._by_name.get(str(asked)) if type(asked) in (int, str) else None
        if place is not None and self._only in (None, place):
            return place, key
        if place is not None:
            raise PartitionRefused(line=line, reason=f"it asks for partition {place}, and was sent to {self._only}")
        reason = f"its partition {unlike(asked, 'one that there is')}; {self._event_type.name!r} is user_defined"
        raise PartitionRefused(line=line, reason=f"{reason} and has partitions 0 to {self._count - 1}")


def _has(event: dict[str, Any], path: Path) -> bool:
    try:
        key_text(event, path)
    except KeyError:
        return False
    return True
