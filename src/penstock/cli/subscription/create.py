"""`penstock subscription create`: makes a subscription, or says that it is there."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import URL, OutputOption, UrlOption

if TYPE_CHECKING:
    from penstock.client import Subscription

Cursors = list[dict[str, Any]]


def create(
    event_types: Annotated[list[str], typer.Argument(metavar="EVENT_TYPE", help="What it is to read.")],
    *,
    application: Annotated[
        str, typer.Option("--application", "--owning-application", metavar="NAME", help="Whose it is.")
    ],
    group: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Tells it from others of this application and these event types."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="begin|end|FILE",
            help="Where it begins; at the end unless given. A file has cursors as JSON, one for each partition; - is"
            " stdin.",
        ),
    ] = None,
    park_after: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=10,
            metavar="N",
            help="When an event was sent so often and never committed, its key is parked, and others go on.",
        ),
    ] = None,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Create a subscription of an application to event types, or say that it is there already.

    There is one for an application, event types and a group: a service can give this command whenever it starts.
    """
    from penstock.cli.output import print_json, tell
    from penstock.cli.subscription.finding import hub_at
    from penstock.core.subscriptions.definition import PARK_AFTER

    annotations = None if park_after is None else {PARK_AFTER: str(park_after)}
    wish: dict[str, Any] = {"read_from": start}
    if start is not None and start not in ("begin", "end"):
        wish = {"initial_cursors": _read(Path(start))}
    with hub_at(url) as client:
        made, created = client.subscriptions.create(
            application, event_types, consumer_group=group, annotations=annotations, **wish
        )
    if output == "json":
        print_json({"created": created, "subscription": made})
    else:
        _say(made, start, created=created)
    if not created and (vain := _vain(made, wish, annotations)):
        tell(f"{' and '.join(vain)} had no effect: it is as it was made")


def _say(made: "Subscription", start: str | None, *, created: bool) -> None:
    from penstock.cli.output import say
    from penstock.cli.subscription.finding import of

    given = "from stdin" if start == "-" else f"in {start}"
    begins = {"begin": "at the beginning", "end": "at the end", "cursors": f"at the cursors {given}"}
    if created:
        say(f"created {made.id} ({of(made)}), which begins {begins.get(made.read_from, made.read_from)}")
    else:
        say(f"{made.id} ({of(made)}) was there already, since {made.created_at}")


def _vain(made: "Subscription", wish: dict[str, Any], annotations: dict[str, str] | None) -> list[str]:
    """Return the options that ask for something else than the subscription is that was there."""
    differs = wish.get("read_from") not in (None, made.read_from) or (
        "initial_cursors" in wish and _places(made.initial_cursors) != _places(wish["initial_cursors"])
    )
    found = ["--from"] if differs else []
    if annotations is not None and not annotations.items() <= made.annotations.items():
        found.append("--park-after")
    return found


def _places(cursors: Cursors) -> set[tuple[object, object, object]]:
    return {(each.get("event_type"), each.get("partition"), each.get("offset")) for each in cursors}


def _read(file: Path) -> Cursors:
    """Return the cursors in a file: a list of them, or what a hub answers when it is asked for a subscription's.

    Raises:
        BadParameter: it cannot be read, or there is something else in it.
    """
    import sys

    import msgspec

    try:
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        given = msgspec.json.decode(raw)
        if isinstance(given, dict) and "items" in given:
            given = given["items"]
        found = msgspec.convert(given, Cursors)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="--from") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} is no list of cursors: {error}", param_hint="--from") from error
    if not found:
        detail = f"{file} has no cursor in it: a subscription that nobody has read from yet has none"
        raise typer.BadParameter(detail, param_hint="--from")
    return found
