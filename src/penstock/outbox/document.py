"""Turns whatever a service calls an event into the bytes of a JSON document."""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from penstock.errors import InvalidEvent


def document(event: Any) -> bytes:
    """Return *event* as JSON: bytes and text as they are; mappings, dataclasses, Structs and models encoded.

    Raises:
        InvalidEvent: a text is not Unicode, or a number is not finite, which JSON cannot say.
        TypeError: the event holds something that has no form in JSON.

    >>> document({"order_id": 1})
    b'{"order_id":1}'
    """
    if isinstance(event, (bytes, bytearray, memoryview, msgspec.Raw)):
        return bytes(event)
    try:
        if isinstance(event, str):
            return event.encode()
        raw = msgspec.json.encode(event, enc_hook=_plain)
    except UnicodeEncodeError:
        raise InvalidEvent(reason="a text in it holds half of a surrogate pair, which is not Unicode") from None
    # The encoder writes null for what is not finite, which would lose it in silence.
    if b"null" in raw and not _is_finite(msgspec.to_builtins(event, enc_hook=_plain)):
        raise InvalidEvent(reason="it holds NaN or an infinity, which JSON cannot say")
    return raw


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__qualname__} has no form in JSON: convert it before publishing")


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_finite, value))
    return True
