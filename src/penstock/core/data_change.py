"""A change of data, as an event of the category `data` tells of it."""

from typing import TYPE_CHECKING, Any, Final, Generic, Literal

import msgspec

from penstock.errors import BadParameter

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Entity = TypeVar("Entity", default=Any)
else:
    from typing import TypeVar

    Entity = TypeVar("Entity")

_OPERATIONS: Final = ("C", "U", "D", "S")


class DataChange(msgspec.Struct, Generic[Entity], frozen=True, omit_defaults=True):
    """What has happened to a record; `DataChange[Order]` is one whose record is an Order.

    It has the members of a data event (digest of Nakadi's contract, 3.1), so it is published as it is, and events of
    data event types are read into it.

    Raises:
        BadParameter: the type is no text, or the operation is none of the four.

    >>> DataChange("order", "U", {"order_id": 7}).data
    {'order_id': 7}
    """

    data_type: str
    """What sort of record it is: the event's kind."""
    data_op: Literal["C", "U", "D", "S"]
    """C: it was created; U: updated; D: deleted; S: a snapshot, so it is now."""
    data: Entity
    """The record: a mapping, a dataclass, a Struct or a pydantic model."""
    metadata: dict[str, Any] | None = None
    """The event's metadata. What it lacks of id and time is filled in when it is published."""

    def __post_init__(self) -> None:
        if not isinstance(self.data_type, str):
            raise BadParameter(parameter="data_type", value=self.data_type, allowed="a name, such as 'order'")
        if self.data_op not in _OPERATIONS:
            allowed = "C (created), U (updated), D (deleted) or S (snapshot)"
            raise BadParameter(parameter="data_op", value=self.data_op, allowed=allowed)
