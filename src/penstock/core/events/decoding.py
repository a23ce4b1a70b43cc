"""Decodes events into the Python type that a reader has chosen."""

import re
from collections.abc import Callable
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec
from msgspec import inspect

from penstock.schema import pydantic_models as pydantic_model
from penstock.schema.models import DataChange, type_nodes
from penstock.schema.pydantic_models import is_pydantic, mentions_pydantic

_MISSING: Final = re.compile(r"Object missing required field `(.*)`")
_STEP: Final = re.compile(r"\.([^.\[]+)|\[([^\]]*)\]")
_MODULE: Final = re.compile(r"\b(?:\w+\.)+(?=\w)")
_ENVELOPE: Final = frozenset(["data_type", "data_op", "data"])
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class EventDecoder:
    """Decodes an event's JSON into *kind*: a Struct, a dataclass or a pydantic model, a union of some, a DataChange.

    The type describes the whole event. Unknown members are ignored, since a newer schema may have more members than the
    type; the event guidelines ask that of consumers ("Avoid additionalProperties in event type definitions").

    Args:
        kind: the type.
        feed: the name of the feed, for errors.

    Raises:
        TypeError: events cannot be decoded into *kind*; or it is a Struct that forbids unknown members.
        RequirementMissing: a pydantic model forbids unknown members, and the installed pydantic cannot override that.

    >>> EventDecoder(DataChange[dict[str, int]]).decode(b'{"data_type":"order","data_op":"C","data":{"n":1}}').data
    {'n': 1}
    """

    decode: Callable[[Any], Any]
    """Decodes one event; raises one of `failures`, or an exception of the type's own code."""

    def __init__(self, kind: Any, feed: str = "a feed") -> None:
        self.kind = kind
        self.feed = feed
        self.failures: tuple[type[Exception], ...] = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
        self._is_of_changes = kind is DataChange or get_origin(kind) is DataChange
        entity = get_args(kind)[0] if get_origin(kind) is DataChange else None
        if mentions_pydantic(entity):
            self.decode = _change_decoder(self._read(entity))
        elif mentions_pydantic(kind):
            self.decode = self._read(kind)
        else:
            self.decode = msgspec.json.Decoder(kind, dec_hook=_make_nested_hook(kind)).decode

    @property
    def name(self) -> str:
        """The name of the type."""
        kind = get_args(self.kind)[0] if get_origin(self.kind) is Annotated else self.kind
        return kind.__qualname__ if isinstance(kind, type) else _MODULE.sub("", str(kind))

    def explain(self, error: Exception, raw: bytes) -> tuple[str, str]:
        """Return a JSON pointer to the member of *raw* that could not be decoded, and the reason."""
        if isinstance(error, msgspec.DecodeError):
            steps, reason = _parse_error_text(str(error))
        elif isinstance(error, UnicodeDecodeError | RecursionError):
            steps, reason = [], f"it is no JSON that can be read: {error}"
        else:
            steps, reason = pydantic_model.explain_error(error)
            steps = _json_steps(["data", *steps] if self._is_of_changes else steps, raw)
        if not self._is_of_changes and len(steps) < 2 and _is_change(raw):
            reason += f"; it is a change of data: read it as DataChange[{self.name}]"
        return "/".join(["#", *(str(step).replace("~", "~0").replace("/", "~1") for step in steps)]), reason

    def __reduce__(self) -> tuple[Any, ...]:
        return EventDecoder, (self.kind, self.feed)

    def _read(self, kind: Any) -> Callable[[Any], Any]:
        from pydantic import ValidationError

        self.failures += (ValidationError,)
        validate = pydantic_model.make_reader(kind)
        return lambda raw: validate(bytes(raw))


def _change_decoder(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    decode = msgspec.json.Decoder(DataChange[msgspec.Raw]).decode

    def change(raw: Any) -> DataChange[Any]:
        whole = decode(raw)
        return DataChange(whole.data_type, whole.data_op, read(whole.data), whole.metadata)

    return change


def _make_nested_hook(kind: Any) -> Callable[[type, Any], Any]:
    """Return a hook that decodes the pydantic models within *kind*; raise TypeError for other custom types."""
    read: dict[type, Callable[[bytes], Any]] = {}
    for node in type_nodes(kind):
        if isinstance(node, inspect.CustomType):
            if not is_pydantic(node.cls):
                raise TypeError(
                    f"{_name(node)} cannot be read from JSON: use a Struct, a dataclass or a pydantic model"
                )
            read[node.cls] = pydantic_model.make_reader(node.cls)
        elif getattr(node, "forbid_unknown_fields", False):
            raise TypeError(
                f"{_name(node)} forbids members that it does not know, so that it could not read the events of a newer "
                "schema: define it without forbid_unknown_fields, or read into a subclass that has it False"
            )

    def hook(model: type, value: Any) -> Any:
        from pydantic import ValidationError

        try:
            return read[model](msgspec.json.encode(value))
        except ValidationError as error:
            steps, reason = pydantic_model.explain_error(error)
            raise ValueError(f"{'.'.join(map(str, steps))}: {reason}") from None

    return hook


def _name(node: Any) -> str:
    return str(getattr(node.cls, "__qualname__", node.cls))


def _parse_error_text(text: str) -> tuple[list[str], str]:
    """Split an error message of msgspec into the path and the reason.

    >>> _parse_error_text("Expected `int`, got `str` - at `$.items[0].price`")
    (['items', '0', 'price'], 'expected `int`, got `str`')
    >>> _parse_error_text("Object missing required field `price` - at `$.items[0]`")
    (['items', '0', 'price'], 'is missing')
    """
    reason, _, path = text.rpartition(" - at ") if " - at `" in text else (text, "", "")
    path = path.rpartition("`$")[2].removesuffix("`")
    steps = [name or ("*" if index == "..." else index) for name, index in _STEP.findall(path)]
    if missing := _MISSING.fullmatch(reason):
        return [*steps, missing[1]], "is missing"
    return steps, f"{reason[:1].lower()}{reason[1:]}"


def _json_steps(steps: list[Any], raw: bytes) -> list[Any]:
    """Return *steps* without those that pydantic takes within the type alone, such as to one class of a union."""
    kept = []
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return steps
    for number, step in enumerate(steps, 1):
        try:
            value = value[step]
        except (LookupError, TypeError):
            if number < len(steps):
                continue
        kept.append(step)
    return kept


def _is_change(raw: bytes) -> bool:
    try:
        return _members(raw).keys() >= _ENVELOPE
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
