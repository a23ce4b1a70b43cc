"""Where what was written to a target comes from, in headers beside it: by these it is read back how far it has come."""

from collections.abc import Mapping
from typing import Final

STREAM: Final = "penstock-stream"
"""The stream at the source."""
INDEX: Final = "penstock-index"
"""The event's index there."""
GROUP: Final = "penstock-group"
"""Under which name it was written."""
NAMES: Final = (STREAM, INDEX, GROUP)


def origin(stream: str, index: int, group: str) -> dict[str, str]:
    """Return the headers of what comes from a stream's event.

    >>> origin("order.placed-7", 12, "mailer")
    {'penstock-stream': 'order.placed-7', 'penstock-index': '12', 'penstock-group': 'mailer'}
    """
    return {STREAM: stream, INDEX: str(index), GROUP: group}


def place_of(headers: Mapping[str, str], group: str) -> tuple[str, int] | None:
    """Return the stream and index that *headers* name; None: they were not written by *group*."""
    index = headers.get(INDEX, "")
    if headers.get(GROUP) != group or not index.isdecimal() or STREAM not in headers:
        return None
    return headers[STREAM], int(index)
