"""Data changes, applied in whatever order and however often they come: decides which of them take effect.

Guideline "Design for idempotent out-of-order processing": what is older than that which was applied last to the same
entity is passed over. So changes have to hold the whole record, as it is after the change.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from penstock.core.document import unlike
from penstock.errors import BadParameter, WrongCategory
from penstock.processing.event import body, source_of, unplaced
from penstock.processing.fields import Fields, Reader, Values, many, one
from penstock.processing.ordering import Ordering

E = TypeVar("E")
_ENTITY: Final = ((int, str), "a whole number or a text")
_OPERATIONS: Final = ("C", "U", "D", "S")


class Change(NamedTuple, Generic[E]):
    """A change that takes effect."""

    event: E
    """The event, as it was handed in."""
    entity: Any
    """What has changed: the value of its key field; a tuple, where there are several."""
    order: Any
    """Its ordering key: the value of its field; a tuple, where there are several."""
    deletes: bool
    """Whether the entity is gone."""

    @property
    def record(self) -> dict[str, Any]:
        """The entity as it is after the change, or was before it was deleted: the event's member `data`."""
        record: dict[str, Any] = body(self.event)["data"]
        return record


class Candidate(NamedTuple, Generic[E]):
    """The newest change of an entity in a batch."""

    change: Change[E]
    order: Values
    number: int
    """Its place in the batch, counted from 0."""


class Known(NamedTuple):
    """What was last applied to an entity."""

    order: Any
    """The ordering key; None: nothing was."""
    deleted: bool = False


class Changes:
    """The changes of an event type's entities.

    Args:
        event_type: Its definition, as `Client.event_type` gives it; or its name, with *entity* and *order_by*.
        entity: The fields that name the entity: paths through the whole event, such as `data.id`, or a function from an
            event to their values. By default the definition's `ordering_instance_ids`.
        order_by: The fields of the ordering key, the first of them the weightiest, likewise. By default the
            definition's `ordering_key_fields`.

    Raises:
        WrongCategory: its events are no data changes.
        BadParameter: neither you nor the definition say which the fields are.
    """

    def __init__(
        self, event_type: str | Mapping[str, Any], *, entity: Fields | None = None, order_by: Fields | None = None
    ) -> None:
        source = source_of(event_type)
        if source.category not in (None, "data"):
            raise WrongCategory(
                event_type=source.name,
                category=source.category,
                wanted="data",
                reason="its events do not say what has changed, and how",
            )
        self.event_type = source.name
        self._reader = Reader(_named(entity, source.definition, "entity", "ordering_instance_ids"), _ENTITY, "entity")
        self._ordering = Ordering(_named(order_by, source.definition, "order_by", "ordering_key_fields"), source.name)

    def entities(self, events: Iterable[Any]) -> list[Any]:
        """Return what *events* are about, each entity once: what to look up for `newest`.

        Raises:
            OrderUnknown: an event does not name its entity.
        """
        found = (self._reader.read(event, body(event), index, self.event_type) for index, event in enumerate(events))
        return [one(entity) for entity in dict.fromkeys(found)]

    def newest(self, events: Iterable[E], known: Mapping[Any, Any]) -> list[Change[E]]:
        """Return which changes take effect, at most one for each entity: the newest, if it is newer than what is known.

        What has the ordering key of one that is known is held to be its repeat, and passed over; only a deletion wins
        over an update that has the same. Which of them comes first makes no difference.

        Args:
            events: Data changes, in any order: created (C), updated (U), deleted (D), or shown as they are (S).
            known: Entity to the ordering key of the change that was applied last, each as `Change` has it; or to a
                `Known`, which says of deleted entities that they are. Entities of which nothing is known are left out.

        Raises:
            OrderUnknown: an event is no data change, does not name its entity, or has no ordering key that can be
                compared with the others. Names the event.
        """
        return [candidate.change for candidate in self.news(self.candidates(events), known)]

    def candidates(self, events: Iterable[E]) -> list[Candidate[E]]:
        """Return the newest change of each entity: the first half of `newest`, before it is known what was applied.

        Raises:
            OrderUnknown: as `newest`.
        """
        found: dict[Values, Candidate[E]] = {}
        for index, event in enumerate(events):
            whole = body(event)
            deletes = self._deletes(event, whole, index)
            entity = self._reader.read(event, whole, index, self.event_type)
            order = self._ordering.key(event, whole, index)
            this = Candidate(Change(event, one(entity), one(order), deletes), order, index)
            best = found.get(entity)
            if best is None or self._supersedes(this, best.order, best.change.deletes):
                found[entity] = this
        return list(found.values())

    def news(self, candidates: Iterable[Candidate[E]], known: Mapping[Any, Any]) -> list[Candidate[E]]:
        """Return which of *candidates* are newer than what is *known*: the second half of `newest`.

        Raises:
            OrderUnknown: an ordering key cannot be compared with the one that is known.
        """
        return [candidate for candidate in candidates if self._is_news(candidate, known)]

    def _is_news(self, candidate: Candidate[Any], known: Mapping[Any, Any]) -> bool:
        last = known.get(candidate.change.entity)
        if not isinstance(last, Known):
            last = Known(last)
        return last.order is None or self._supersedes(candidate, many(last.order), last.deleted)

    def _supersedes(self, this: Candidate[Any], last: Values, is_deleted: bool) -> bool:
        found = self._ordering.compare(this.change.event, this.number, this.order, last)
        return found > 0 or (found == 0 and this.change.deletes and not is_deleted)

    def _deletes(self, event: Any, whole: Any, index: int) -> bool:
        operation = whole.get("data_op") if isinstance(whole, Mapping) else None
        if operation not in _OPERATIONS:
            raise unplaced(event, index, self.event_type, f"data_op {unlike(operation, 'C, U, D or S')}")
        if not isinstance(whole.get("data"), Mapping):
            raise unplaced(event, index, self.event_type, f"data {unlike(whole.get('data'), 'an object')}")
        return bool(operation == "D")


def _named(given: Fields | None, definition: Mapping[str, Any], parameter: str, member: str) -> Fields:
    if given is not None:
        return given
    found: Sequence[str] = definition.get(member) or ()
    if found:
        return found
    right = f"fields, such as ['data.id'], since the definition has no {member}"
    raise BadParameter(parameter=parameter, value=None, allowed=right)
