"""The names of consumer groups."""

from typing import Final

NAME_CHARS_MAX: Final = 255
PATH_NAME_ALLOWED: Final = f"1 to {NAME_CHARS_MAX} printable characters of ASCII, but neither . nor .. alone"


def is_group_name(text: str) -> bool:
    """Return whether *text* is a valid name of a consumer group.

    >>> is_group_name("mailer, the second"), is_group_name("grün"), is_group_name("")
    (True, False, False)
    """
    return 0 < len(text) <= NAME_CHARS_MAX and text.isascii() and text.isprintable()


def is_path_name(text: str) -> bool:
    """Return whether *text* is a valid name of a consumer group that can be part of a URL path.

    >>> is_path_name("mailer"), is_path_name("..")
    (True, False)
    """
    return is_group_name(text) and text not in (".", "..")
