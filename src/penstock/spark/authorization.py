"""By which right a query asks: the bearer token of a file."""

from pathlib import Path
from typing import Final

from penstock.errors import BadParameter
from penstock.spark.options import bad_option

_ALLOWED: Final = "a file that can be read, with a token of printable ASCII in one line"


def checked_file(name: str, text: str) -> str:
    """Return the option *name*, a file with a token.

    Raises:
        BadParameter: it is empty.
    """
    if not text.strip():
        raise bad_option(name, text, _ALLOWED)
    return text.strip()


def authorization(authorization_file: str | None) -> dict[str, str]:
    """Return the header for the token that the file has now: whoever renews it writes the file anew.

    Raises:
        BadParameter: there is no token in it; what is in it is not shown.
    """
    if authorization_file is None:
        return {}
    try:
        secret = Path(authorization_file).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise _refused(authorization_file, str(reason)) from None
    if not secret or not secret.isprintable() or " " in secret:
        raise _refused(authorization_file, "there is none in it" if not secret else "it has spaces or several lines")
    return {"Authorization": f"Bearer {secret}"}


def _refused(authorization_file: str, reason: str) -> BadParameter:
    return bad_option("tokenFile", authorization_file, f"{_ALLOWED}: {reason}")
