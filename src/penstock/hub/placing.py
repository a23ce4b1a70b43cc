"""Chooses the partition that an event falls in, by the event type's strategy (digest of Nakadi's contract, 3.6)."""

from collections.abc import Callable, Sequence
from typing import Any

from penstock.core.document import unlike
from penstock.core.event import NewEvent, check_key
from penstock.core.event_type import Feed
from penstock.core.partitioning import Path, hash_partition, key_path, key_text, random_partitions
from penstock.errors import PartitionRefused

Place = Callable[[str | None, NewEvent, dict[str, Any], int], tuple[int, str | None]]
"""Chooses the partition by an event's key, what came with it, itself, and its line; returns its own key, too."""


class Placing:
    """Chooses the partitions of one feed's events."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._count = feed.partition_count
        self._by_name = {str(partition): partition for partition in range(self._count)}
        prefix = "data." if feed.event_type.category == "data" else ""
        self._paths: list[Path] = [key_path(prefix + field) for field in feed.event_type.partition_key_fields]
        strategies: dict[str, Place] = {"hash": self._hashed, "user_defined": self._asked, "random": self._any}
        self.place = strategies[feed.event_type.partition_strategy]
        self.is_random = feed.event_type.partition_strategy == "random"

    def random(self, events: int) -> Sequence[int]:
        """Return a partition for each of so many events, any of them."""
        return random_partitions(events, self._count)

    def _any(self, key: str | None, new: NewEvent, event: dict[str, Any], line: int) -> tuple[int, str | None]:  # noqa: ARG002
        return self.random(1)[0], key

    def _hashed(self, key: str | None, new: NewEvent, event: dict[str, Any], line: int) -> tuple[int, str]:  # noqa: ARG002
        if key is not None:
            return hash_partition((key,), self._count), key
        texts = self._texts(event, line)
        key = ",".join(texts)
        check_key(key, line, PartitionRefused)
        return hash_partition(texts, self._count), key

    def _texts(self, event: dict[str, Any], line: int) -> tuple[str, ...]:
        try:
            return tuple([key_text(event, path) for path in self._paths])
        except KeyError as missing:
            what = f"partition key field {missing.args[0]!r} is missing"
            reason = f"{what}; give the event the field; a feed line may have a key instead"
            raise PartitionRefused(line=line, reason=reason) from None

    def _asked(self, key: str | None, new: NewEvent, event: dict[str, Any], line: int) -> tuple[int, str | None]:
        asked: object = new.partition
        if asked is None and type(metadata := event.get("metadata")) is dict:
            asked = metadata.get("partition")
        place = self._by_name.get(str(asked)) if type(asked) in (int, str) else None
        if place is not None:
            return place, key
        reason = f"its partition {unlike(asked, 'one that there is')}; {self._feed.name!r} is user_defined"
        raise PartitionRefused(line=line, reason=f"{reason} and has partitions 0 to {self._count - 1}")
