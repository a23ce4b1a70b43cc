"""By which right a query asks: the bearer token of a file."""

from pathlib import Path
from typing import Final

from penstock.errors import BadParameter
from penstock.spark.options import bad_option

_ALLOWED: Final = "a file that the driver can read, with a token of printable ASCII in one line"


def authorization(token_file: str | None) -> dict[str, str]:
    """Return the header for the token that the file has now: whoever renews it writes the file anew.

    Raises:
        BadParameter: there is no token in it; what is in it is not shown.
    """
    if token_file is None:
        return {}
    try:
        token = Path(token_file).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise _refused(token_file, str(reason)) from None
    if not token or not token.isprintable() or " " in token:
        raise _refused(token_file, "there is none in it" if not token else "it has spaces or several lines")
    return {"Authorization": f"Bearer {token}"}


def _refused(token_file: str, reason: str) -> BadParameter:
    return bad_option("tokenFile", token_file, f"{_ALLOWED}: {reason}")
