"""Data changes in any order, with repeats: decides which of them take effect.

Guideline "Design for idempotent out-of-order processing": a change that is older than the last applied one of
its entity is ignored. So changes have to hold the whole record, as it is after the change.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from penstock.core.events.encoding import describe_mismatch
from penstock.errors import BadParameter, EventUnusable
from penstock.processing.event import (
    FieldReader,
    Fields,
    Ordering,
    Values,
    decode_body,
    make_order_error,
    to_origin,
    unwrap,
    wrap,
)
from penstock.schema.guidelines.draft import ENTITY_KEY_FIELDS, Draft
from penstock.schema.traversal import key_path

__all__ = ["Change", "Changes", "LastChange"]

E = TypeVar("E")
_ENTITY: Final = ((int, str), "a whole number or a text")
_OPERATIONS: Final = ("C", "U", "D", "S")


class Change(NamedTuple, Generic[E]):
    """A change that takes effect."""

    event: E
    """The event, as passed to `newest`."""
    entity: Any
    """The changed entity: the value of its key field; a tuple if there are several."""
    order: Any
    """Its ordering key: the value of its field; a tuple if there are several."""
    deletes: bool
    """True if the change deletes the entity."""

    @property
    def record(self) -> dict[str, Any]:
        """The entity as it is after the change, or was before it was deleted: the event's `data`, as JSON has it.

        If the feed is read into a type, `event.data` has the record in that type.
        """
        record: dict[str, Any] = decode_body(self.event)["data"]
        return record


class Candidate(NamedTuple, Generic[E]):
    """The newest change of an entity in a batch."""

    change: Change[E]
    order: Values
    number: int
    """Its place in the batch, counted from 0."""


class LastChange(NamedTuple):
    """The last applied change of an entity."""

    order: Any
    """Its ordering key; None: no change was applied."""
    deleted: bool = False


class Changes:
    """The changes of an event type's entities.

    Args:
        event_type: Its definition, as `Client.event_type` gives it; or its name, with *entity* and *order_by*.
        entity: The fields that name the entity: paths through the whole event, such as `data.id`, or a function from an
            event to their values. By default those that the definition's annotation `penstock/entity-key-fields` names,
            or else its `ordering_instance_ids`.
        order_by: The fields of the ordering key, the most significant first, likewise. By default the
            definition's `ordering_key_fields`.

    Raises:
        EventUnusable: its events are no data changes.
        BadParameter: neither the arguments nor the definition name the fields.
    """

    def __init__(
        self, event_type: str | Mapping[str, Any], *, entity: Fields | None = None, order_by: Fields | None = None
    ) -> None:
        source = to_origin(event_type)
        if source.category not in (None, "data"):
            raise EventUnusable.of(
                "wrong-category",
                event_type=source.name,
                category=source.category,
                wanted="data",
                reason="its events do not say what has changed, and how",
            )
        self.event_type = source.name
        if entity is None:
            entity = _entity_fields(source.definition) or _fields(source.definition, "ordering_instance_ids", "entity")
        if order_by is None:
            order_by = _fields(source.definition, "ordering_key_fields", "order_by")
        self._reader = FieldReader(entity, _ENTITY, "entity")
        self._ordering = Ordering(order_by, source.name)

    def entities(self, events: Iterable[Any]) -> list[Any]:
        """Return the entities of *events*, each once: look them up for `newest`.

        Raises:
            EventUnusable: an event does not name its entity.
        """
        found = (
            self._reader.read(event, decode_body(event), index, self.event_type) for index, event in enumerate(events)
        )
        return [unwrap(entity) for entity in dict.fromkeys(found)]

    def newest(self, events: Iterable[E], known: Mapping[Any, Any]) -> list[Change[E]]:
        """Return the changes that take effect, at most one for each entity: the newest, if newer than the known one.

        A change with the ordering key of the known one counts as its repeat, and is ignored; only a deletion wins over
        an update with the same ordering key, in either order of arrival.

        Args:
            events: Data changes, in any order: created (C), updated (U), deleted (D), or shown as they are (S).
            known: Entity to the ordering key of the change that was applied last, each as `Change` has it; or to a
                `LastChange`, which also says whether the entity is deleted. Unknown entities are left out.

        Raises:
            EventUnusable: an event is no data change, does not name its entity, or has no ordering key that can be
                compared with the others. Names the event.
        """
        return [candidate.change for candidate in self.news(self.candidates(events), known)]

    def candidates(self, events: Iterable[E]) -> list[Candidate[E]]:
        """Return the newest change of each entity: the first half of `newest`, which needs no known changes.

        Raises:
            EventUnusable: as `newest`.
        """
        found: dict[Values, Candidate[E]] = {}
        for index, event in enumerate(events):
            whole = decode_body(event)
            deletes = self._deletes(event, whole, index)
            entity = self._reader.read(event, whole, index, self.event_type)
            order = self._ordering.read_key(event, whole, index)
            this = Candidate(Change(event, unwrap(entity), unwrap(order), deletes), order, index)
            best = found.get(entity)
            if best is None or self._supersedes(this, best.order, best.change.deletes):
                found[entity] = this
        return list(found.values())

    def news(self, candidates: Iterable[Candidate[E]], known: Mapping[Any, Any]) -> list[Candidate[E]]:
        """Return those of *candidates* that are newer than the *known* changes: the second half of `newest`.

        Raises:
            EventUnusable: an ordering key cannot be compared with the known one.
        """
        return [candidate for candidate in candidates if self._is_news(candidate, known)]

    def _is_news(self, candidate: Candidate[Any], known: Mapping[Any, Any]) -> bool:
        last = known.get(candidate.change.entity)
        if not isinstance(last, LastChange):
            last = LastChange(last)
        return last.order is None or self._supersedes(candidate, wrap(last.order), last.deleted)

    def _supersedes(self, this: Candidate[Any], last: Values, is_deleted: bool) -> bool:
        found = self._ordering.compare(this.change.event, this.number, this.order, last)
        return found > 0 or (found == 0 and this.change.deletes and not is_deleted)

    def _deletes(self, event: Any, whole: Any, index: int) -> bool:
        operation = whole.get("data_op") if isinstance(whole, Mapping) else None
        if operation not in _OPERATIONS:
            raise make_order_error(
                event, index, self.event_type, f"data_op {describe_mismatch(operation, 'C, U, D or S')}"
            )
        if not isinstance(whole.get("data"), Mapping):
            raise make_order_error(
                event, index, self.event_type, f"data {describe_mismatch(whole.get('data'), 'an object')}"
            )
        return bool(operation == "D")


def _fields(definition: Mapping[str, Any], member: str, parameter: str) -> Sequence[str]:
    found: Sequence[str] = definition.get(member) or ()
    if not found:
        right = f"fields, such as ['data.id'], since the definition has no {member}"
        raise BadParameter(parameter=parameter, value=None, allowed=right)
    return found


def _entity_fields(definition: Mapping[str, Any]) -> list[str]:
    """Return the paths through the whole event that the annotation names; it may leave out their `data`."""
    draft = Draft(dict(definition))
    named = [field for text in draft.annotations.get(ENTITY_KEY_FIELDS, "").split(",") if (field := text.strip())]
    fields = [draft.field(text) for text in named]
    return [
        field.text if field.is_own or field.path != key_path(field.text) else f"data.{field.text}" for field in fields
    ]
