"""How long idempotent producers are remembered (digest of idempotent publishing, 4.5)."""

from typing import Final, NamedTuple

from penstock.errors import InvalidSetting
from penstock.storage.producers import Producer

DAY_S: Final = 86_400
IDLE_S_MIN: Final = 240
"""Twice the two minutes for which a client sends a batch again unless told otherwise."""
BATCHES_KEPT: Final = 16
"""The newest batches of a producer are known even after retention has removed their events."""


class Expiry(NamedTuple):
    """When a producer of which nothing is heard expires, and when even its epoch is forgotten."""

    idle_s: float = 7 * DAY_S
    floor_s: float = 30 * DAY_S

    def check(self) -> "Expiry":
        """Return it, or raise InvalidSetting where a producer could expire while its last batch is still being sent."""
        if self.idle_s < IDLE_S_MIN:
            reason = (
                f"is {self.idle_s:g} s; it has to be {IDLE_S_MIN} or more, twice what a client may send a batch for"
            )
            raise InvalidSetting(field="producer_ttl", reason=reason)
        return self

    def expires_at(self, producer: Producer) -> int | None:
        """Return when *producer* expires if nothing more is heard of it; None: never, or it has."""
        if producer.is_pinned or producer.state.is_expired:
            return None
        return producer.updated_at + int(self.idle_s * 1_000_000)
