"""The options that several commands share, and the parser of those that are durations."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from penstock.cli.database_url import check_database

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.core.log.start import Word

Output = Literal["text", "json"]

DATABASE: Final = "sqlite:///penstock.db"
URL: Final = "http://127.0.0.1:8080"


def check_url(url: str) -> str:
    """Return *url* if it is an address that can be asked.

    Raises:
        BadParameter: it is none that begins with http:// or https://.
    """
    from penstock.errors import BadParameter
    from penstock.wire.http import check_address

    try:
        return check_address(url)
    except BadParameter as error:
        raise typer.BadParameter(f"{error.value!r} is not {error.allowed}") from error


def duration_parser(least: float, most: float | None = None, *, unit: str = "") -> Callable[[object], float]:
    """Return the parser of an option that is a duration, such as `30s` or `15m`.

    It returns the duration's seconds, from *least* to *most*. With *unit*, an example such as `d`, a number without a
    unit is refused where it could be mistaken for one of another unit.
    """

    def parse(given: object) -> float:
        from penstock.core.times import EXAMPLES, format_duration, parse_duration

        if unit and str(given).strip().isdigit():  # A default is a float.
            raise typer.BadParameter(f"{given!r} has no unit: write {given}{unit} or {given}s, for example")
        try:
            seconds = parse_duration(str(given))
        except ValueError:
            raise typer.BadParameter(f"{given!r} is not {EXAMPLES}") from None
        if seconds < least or (most is not None and seconds > most):
            bounds = f"{format_duration(least)} or more" if most is None else f"{least:g} to {format_duration(most)}"
            raise typer.BadParameter(f"{given!r} is not {bounds}")
        return seconds

    return parse


START_METAVAR: Final = "earliest|latest|TIME|AGO"
START_HELP: Final = (
    "earliest: the first event there is. latest: the end. TIME, such as 2026-11-20T10:00:00Z: the first event received"
    " then or later. AGO, such as 1h or 30m: the same, so long ago."
)
"""The help of all options for a start; each option adds its subject."""


def parse_start_option(text: str, option: str) -> "Word | datetime":
    """Return the place that *option* names, a duration as the time that it means now.

    Raises:
        BadParameter: it is none of those that `START_METAVAR` has.
    """
    from datetime import UTC, datetime

    from penstock.core.log.start import START_FORM, parse_start, resolve_start
    from penstock.errors import BadParameter

    try:
        return resolve_start(parse_start(text), datetime.now(UTC))
    except BadParameter:
        raise typer.BadParameter(f"{text!r} is not {START_FORM}", param_hint=option) from None


def size_parser(given: object) -> int:
    """Parse an option that is a number of bytes, such as `500MB` or `10GB`."""
    found = re.fullmatch(r"\s*(\d{1,15})\s*(B|kB|MB|GB|TB)\s*", str(given), re.ASCII | re.IGNORECASE)
    if not found or not int(found[1]):
        raise typer.BadParameter(f"{given!r} is not a size such as 500MB or 10GB")
    power: int = ("b", "kb", "mb", "gb", "tb").index(found[2].lower())
    return int(found[1]) * int(1_000**power)


def member_parser() -> Callable[[object], str]:
    """Return the parser of a caller, or of all of a type, on a list of the hub: `service:billing`, `user:*`."""

    def parse(given: object) -> str:
        from penstock.core.access import WILDCARD, Attribute, is_caller_name

        try:
            member = Attribute.parse(str(given))
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        if member.data_type not in ("service", "user") and member != Attribute(WILDCARD, WILDCARD):
            raise typer.BadParameter(f"{member.data_type!r} is no type of a caller: write service:NAME or user:NAME")
        if member.value != WILDCARD and not is_caller_name(member.value):
            raise typer.BadParameter(f"{member.value!r} is no name of a caller: it is printable text, such as billing")
        return str(member)

    return parse


DatabaseOption = Annotated[
    str,
    typer.Option(
        "--database",
        envvar="PENSTOCK_DATABASE",
        help="sqlite:///FILE or postgresql://USER@HOST/DATABASE.",
        callback=check_database,
    ),
]
ColdOption = Annotated[
    str,
    typer.Option(
        "--cold",
        envvar="PENSTOCK_COLD",
        metavar="URL",
        help="The cold tier: file:///DIRECTORY or s3://BUCKET/PREFIX.",
    ),
]
UrlOption = Annotated[str, typer.Option("--url", envvar="PENSTOCK_URL", help="The hub's address.", callback=check_url)]
OutputOption = Annotated[
    Output, typer.Option("--output", "-o", envvar="PENSTOCK_OUTPUT", help="text is for people, json for programs.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
