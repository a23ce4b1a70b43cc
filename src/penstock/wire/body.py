"""Convert the decoded body of a request into the type that describes it."""

from typing import Any, TypeVar

import msgspec

from penstock.errors import BadParameter

Given = TypeVar("Given", bound=msgspec.Struct)


def convert_body(given: Any, type: type[Given], allowed: str) -> Given:
    """Return *given*, decoded JSON, as *type*.

    Raises:
        BadParameter: A member is unknown, missing or malformed; *allowed* says what a body may have.
    """
    try:
        return msgspec.convert(given, type)
    except msgspec.ValidationError as error:
        raise BadParameter(f"the body: {error}; allowed: {allowed}", parameter="body", allowed=allowed) from None
