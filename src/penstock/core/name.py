"""Names of event types (digest of Nakadi's contract, 2.1)."""

import re
from typing import Final

NAME_CHARS_MAX: Final = 255
NAME_PATTERN: Final = r"[a-zA-Z][-0-9a-zA-Z_]*(\.[0-9a-zA-Z][-0-9a-zA-Z_]*)*"
_NAME: Final = re.compile(NAME_PATTERN)


def is_name(text: str) -> bool:
    """Tell whether an event type can be called *text*.

    >>> is_name("order.placed"), is_name("order placed")
    (True, False)
    """
    return len(text) <= NAME_CHARS_MAX and _NAME.fullmatch(text) is not None
