"""`penstock publish`: events from a file or a pipe into a feed."""

import time
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

import typer

from penstock.cli.options import URL, OutputOption, UrlOption

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.cli.failures import CommandFailure
    from penstock.cli.lines import EventLines
    from penstock.cli.replaying import Replaying
    from penstock.client import Client, Published
    from penstock.errors import PenstockError


ProducerGroup = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Publish each event once, however often and after whatever failure the command is given again: a name for "
        "this input alone, which may grow but not change otherwise.",
    ),
]


Batch = Annotated[
    int,
    typer.Option(
        min=1,
        max=100_000,
        metavar="N",
        help="Events in one request, all or none of them. So many are waited for: 1 is for a pipe that pauses.",
    ),
]


def publish(
    event_type: Annotated[str, typer.Argument(metavar="EVENT_TYPE", help="Where to.")],
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="JSON lines: a file or a pipe; - is stdin."),
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
    batch: Batch = 1000,
    from_line: Annotated[
        int, typer.Option(min=1, metavar="N", help="Begin with line N: to go on where an earlier call came to.")
    ] = 1,
    producer_group: ProducerGroup = None,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Publish events, one JSON object a line, in their order.

    They are sent in batches; a batch is stored as a whole or not at all. When a line is refused, the batches before its
    own are stored, and the line is named, so that you can go on from there. When the connection breaks, you are told of
    which lines it is not known whether they are stored, and how to find out: nothing is sent twice by itself. Business
    and data events without an id or a time get both.

    With --producer-group the hub knows which events it has: give the same command again, and it goes on behind them.
    """
    from penstock.cli.failures import unwind_on_sigterm
    from penstock.cli.hub import open_client
    from penstock.cli.lines import EventLines

    _check(file)
    if producer_group is not None:
        _check_group(producer_group, from_line)
    with open_client(url, retry_timeout=0) as client:
        client.event_type(event_type)  # Fails at once where publishing would try for a while.
    started = time.monotonic()
    unwind_on_sigterm()
    with _open_file(file) as stream, open_client(url) as client:
        given = EventLines(stream, lines, key_field, from_line)
        name = "standard input" if str(file) == "-" else str(file)
        sending = _sending(client, event_type, given, name, producer_group)
        with _explain_ending(sending):
            sending.run(batch, _size(stream))
        given.check_begun()
    sending.report(time.monotonic() - started, as_json=output == "json")


def _check(file: Path) -> None:
    """Refuse what is not there or a directory; whatever else can be opened is read, pipes by name too."""
    if str(file) == "-":
        return
    try:
        is_directory = S_ISDIR(file.stat().st_mode)
    except FileNotFoundError as error:
        raise typer.BadParameter(f"there is no file {file}", param_hint="FILE") from error
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="FILE") from error
    if is_directory:
        raise typer.BadParameter(f"{file} is a directory; name a file with JSON lines in it", param_hint="FILE")


def _check_group(name: str, from_line: int) -> None:
    from penstock.errors import BadParameter
    from penstock.wire.producers import check_group

    if from_line > 1:
        raise typer.BadParameter("the hub knows where to go on with --producer-group", param_hint="--from-line")
    try:
        check_group(name)
    except BadParameter as error:
        allowed = error.allowed
        raise typer.BadParameter(f"{name!r} is not {allowed}", param_hint="--producer-group") from error


def _open_file(file: Path) -> BinaryIO:
    import sys

    if str(file) == "-":
        return sys.stdin.buffer
    try:
        return file.open("rb")  # A named pipe is waited for until somebody writes to it.
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="FILE") from error


def _size(stream: BinaryIO) -> int | None:
    """Return how many bytes there are, None where that is not known before they have come."""
    import os

    status = os.fstat(stream.fileno())
    return status.st_size if S_ISREG(status.st_mode) else None


def _sending(
    client: "Client", event_type: str, lines: "EventLines", name: str, producer_group: str | None
) -> "_Sending | Replaying":
    from penstock.cli.replaying import Replaying

    if producer_group is None:
        return _Sending(client, event_type, lines, name)
    return Replaying(client, event_type, lines, name, producer_group)


@contextmanager
def _explain_ending(sending: "_Sending | Replaying") -> "Iterator[None]":
    """Turn what ends the sending into what is told: how much is stored, and how to go on."""
    from penstock.cli.failures import INTERRUPTED, TERMINATED
    from penstock.errors import PenstockError

    try:
        yield
    except PenstockError as error:
        raise sending.failure(error) from error
    except OSError as error:
        raise sending.broken(error) from error
    except KeyboardInterrupt:
        raise sending.make_interruption("interrupted", INTERRUPTED) from None
    except SystemExit:
        raise sending.make_interruption("ended by SIGTERM", TERMINATED) from None


class _Sending:
    """Sends lines, knows at any time how many of their events are stored, and says so when it fails."""

    def __init__(self, client: "Client", event_type: str, lines: "EventLines", name: str) -> None:
        self._client = client
        self._event_type = event_type
        self._lines = lines
        self._name = name
        self._stored = 0
        self._done: Published | None = None

    def run(self, batch: int, size: int | None) -> None:
        """Send all lines, and show on a terminal how far it is."""
        from penstock.cli.output import progress

        with progress(known_end=size is not None) as display:
            task = display.add_task(self._event_type, total=size, events=0)

            def note(done: "Published") -> None:
                self._stored = done.count
                display.update(task, completed=self._lines.byte_count if size else None, events=done.count)

            self._done = self._client.publish(self._event_type, self._lines, batch_events=batch, progress=note)

    def report(self, seconds: float, *, as_json: bool) -> None:
        """Say what was published."""
        from penstock.cli.output import number, plural, print_json, say

        done = self._done
        assert done is not None
        if as_json:
            cursors = {str(partition): cursor for partition, cursor in sorted(done.cursors.items())}
            result = {"event_type": self._event_type, "count": done.count, "bytes": done.byte_count}
            print_json(result | {"seconds": round(seconds, 3), "cursors": cursors})
        else:
            rate = number(round(done.count / max(seconds, 1e-6)))
            say(f"published {plural(done.count, 'event')} to {self._event_type} in {seconds:.1f} s ({rate}/s)")

    def failure(self, error: "PenstockError") -> "CommandFailure":
        """Say where the input failed, how much of it is stored, and from which line to go on."""
        from penstock.cli.failures import CommandFailure

        detail = error.detail.partition(" (after ")[0]
        doubtful = error.fields.get("doubtful")
        if isinstance(doubtful, int):
            return CommandFailure(detail, self._doubt(doubtful))
        event = error.fields.get("line")
        at = error.fields.get("at") or (self._lines.number(event) if isinstance(event, int) else None)
        return CommandFailure(f"line {at} of {self._name}: {_reason(error)}" if at else detail, self._rest())

    def broken(self, error: OSError) -> "CommandFailure":
        """Say the same where the input itself cannot be read any further."""
        from penstock.cli.failures import CommandFailure

        return CommandFailure(f"{self._name} cannot be read: {error.strerror}", self._rest())

    def make_interruption(self, how: str, status: int) -> "CommandFailure":
        """Say the same where a signal has broken in, and *how*: what was being sent may be stored or not."""
        from penstock.cli.failures import CommandFailure
        from penstock.cli.output import plural

        begun = self._lines.event_count - self._stored
        if not begun:
            return CommandFailure(how, self._rest(), status=status)
        first = self._lines.number(self._stored + 1)
        tail = f"penstock tail {self._event_type} -n {begun} --no-follow"
        return CommandFailure(
            how,
            f"{_are_stored(self._stored)} for certain. Of the next {plural(begun, 'event')} (from line {first} of "
            f"{self._name} on) a batch may be stored, as a whole.\n"
            f"Look for the event of line {first} with `{tail}`: if it is there, go on behind the last one that is, "
            f"else with --from-line {first}.",
            status=status,
        )

    def _rest(self) -> str:
        if not self._stored:
            return "Nothing was published."
        return f"{_are_stored(self._stored)}; go on with --from-line {self._lines.number(self._stored + 1)}."

    def _doubt(self, doubtful: int) -> str:
        """Tell what is certain, what is not, and how to find out: a batch is stored as a whole or not at all."""
        from penstock.cli.output import plural

        first, last = self._lines.number(self._stored + 1), self._lines.number(self._stored + doubtful)
        lines = f"line {first}" if first == last else f"lines {first} to {last}"
        tail = f"penstock tail {self._event_type} -n {doubtful} --no-follow"
        return (
            f"{_are_stored(self._stored)} for certain. The next {plural(doubtful, 'event')} ({lines} of {self._name})"
            f" were sent together, and are all stored or none.\n"
            f"Look for the event of line {last} with `{tail}`: if it is there, go on with --from-line {last + 1}, "
            f"else with --from-line {first}."
        )


def _are_stored(count: int) -> str:
    from penstock.cli.output import plural

    return f"{plural(count, 'event')} {'is' if count == 1 else 'are'} stored"


def _reason(error: "PenstockError") -> str:
    if reason := error.fields.get("reason"):
        return str(reason)
    detail = error.detail.partition(" (after ")[0]
    line, _, reason = detail.partition(": ")
    return reason if line.startswith("line ") else detail
