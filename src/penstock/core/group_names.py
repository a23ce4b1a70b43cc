"""The names of consumer groups."""

from typing import Final

NAME_CHARS_MAX: Final = 255


def is_group_name(text: str) -> bool:
    """Return whether *text* is a valid name of a consumer group.

    >>> is_group_name("mailer, the second"), is_group_name("grün"), is_group_name("")
    (True, False, False)
    """
    return 0 < len(text) <= NAME_CHARS_MAX and text.isascii() and text.isprintable()
