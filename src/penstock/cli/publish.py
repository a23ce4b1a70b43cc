"""`penstock publish`: events from a file or a pipe into a feed."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

import typer

from penstock.cli.options import URL, OutputOption, UrlOption

if TYPE_CHECKING:
    from penstock.cli.failures import Failure
    from penstock.cli.lines import Lines
    from penstock.client import Client, Published
    from penstock.errors import PenstockError


def publish(
    event_type: Annotated[str, typer.Argument(help="Where to.")],
    file: Annotated[
        Path,
        typer.Argument(metavar="[FILE]", help="JSON lines; - is stdin."),
    ] = Path("-"),
    *,
    lines: Annotated[
        Literal["auto", "events", "feed"],
        typer.Option(
            help='events: each line is an event. feed: each is {"data":…}, with key, headers and partition as '
            "you like, as `tail --output json` and the hub give them. auto: as the first line looks."
        ),
    ] = "auto",
    key_field: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The field that holds each event's key, such as customer.id."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, max=100_000, help="Events in one request, all or none of them.")] = 1000,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Publish events, one JSON object a line, in their order.

    They are sent in batches; a batch is stored as a whole or not at all. When a line is refused, the batches before its
    own are stored, and the line is named, so that you can go on from there. Business and data events without an id or a
    time get both.
    """
    import sys

    from penstock.cli.lines import Lines
    from penstock.client import Client
    from penstock.errors import PenstockError

    is_stdin = str(file) == "-"
    if not (is_stdin or file.is_file()):
        raise typer.BadParameter(f"there is no file {file}", param_hint="FILE")
    with Client(url, patience=0) as client:
        client.event_type(event_type)  # Fails at once where publishing would try for a while.
    started = time.monotonic()
    with sys.stdin.buffer if is_stdin else file.open("rb") as stream:
        given = Lines(stream, lines, key_field)
        size = _size(stream)
        with Client(url) as client:
            sending = _Sending(client, event_type, given)
            try:
                done = sending.run(batch, size)
            except PenstockError as error:
                name = "standard input" if is_stdin else str(file)
                raise _failure(error, given, name, sending.stored) from error
    _report(event_type, done, time.monotonic() - started, as_json=output == "json")


class _Sending:
    """Sends lines, and knows at any time how many of their events are stored."""

    def __init__(self, client: "Client", event_type: str, lines: "Lines") -> None:
        self._client = client
        self._event_type = event_type
        self._lines = lines
        self.stored = 0

    def run(self, batch: int, size: int | None) -> "Published":
        from penstock.cli.output import progress

        with progress(known_end=size is not None) as display:
            task = display.add_task(self._event_type, total=size, events=0)

            def note(done: "Published") -> None:
                self.stored = done.count
                display.update(task, completed=self._lines.byte_count if size else None, events=done.count)

            return self._client.publish(self._event_type, self._lines, batch_events=batch, progress=note)


def _size(stream: BinaryIO) -> int | None:
    import os
    import stat

    status = os.fstat(stream.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _failure(error: "PenstockError", lines: "Lines", name: str, stored: int) -> "Failure":
    """Say where the input failed, how much of it is stored, and from which line to go on."""
    from penstock.cli.failures import Failure
    from penstock.cli.output import number

    event = error.fields.get("line")
    at = error.fields.get("at") or (lines.number(event) if isinstance(event, int) else None)
    detail = f"line {at} of {name}: {_reason(error)}" if at else error.detail.partition(" (after ")[0]
    going_on = lines.number(stored + 1) if stored else 1
    hint = f"{number(stored)} events are stored"
    if "doubtful" in error.fields:
        hint += f", and of {error.fields['doubtful']} more it is not known: look into the feed before you repeat them."
    else:
        hint += f"; go on from line {going_on}." if stored else "; nothing was published."
    return Failure(detail, hint)


def _reason(error: "PenstockError") -> str:
    reason = error.fields.get("reason")
    if reason is None and {"size", "limit"} <= error.fields.keys():
        reason = f"the event has {error.fields['size']} bytes, more than the {error.fields['limit']} that are allowed"
    return reason or error.detail


def _report(event_type: str, done: "Published", seconds: float, *, as_json: bool) -> None:
    from penstock.cli.output import number, print_json, say

    if as_json:
        cursors = {str(partition): cursor for partition, cursor in sorted(done.cursors.items())}
        counted = {"event_type": event_type, "count": done.count, "bytes": done.byte_count}
        print_json(counted | {"seconds": round(seconds, 3), "cursors": cursors})
    else:
        rate = number(round(done.count / max(seconds, 1e-6)))
        say(f"published {number(done.count)} events to {event_type} in {seconds:.1f} s ({rate}/s)")
