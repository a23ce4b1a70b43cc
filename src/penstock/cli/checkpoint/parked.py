"""`penstock checkpoint parked`, `retry` and `drop`: streams that a processor has set aside, since an event failed."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli.checkpoint.keeper import TABLE, HubOption, Keeper, KeptInOption, ProcessorArgument, TableOption
from penstock.cli.checkpoint.moving import ReasonOption
from penstock.cli.checkpoint.opening import keeper
from penstock.cli.options import URL, OutputOption, YesOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.processing.checkpoints.database import ParkedAt

DETAIL_CHARS: Final = 100
SUGGESTED_MAX: Final = 5
StreamArgument = Annotated[str, typer.Argument(metavar="STREAM", help="The stream's name, as `parked` shows it.")]


def parked(
    processor: ProcessorArgument,
    *,
    database: KeptInOption = None,
    table: TableOption = TABLE,
    url: HubOption = URL,
    output: OutputOption = "text",
) -> None:
    """List the streams that a processor has parked, the oldest first: where each fails, and why.

    `index` is that of the event which could not be handled; those behind it wait with it. A stream that was retried in
    vain keeps the time at which it was first parked; its attempts are added up. For people, long reasons are
    cut; --output json has them whole.
    """
    from penstock.cli.event_line import bare, cut
    from penstock.cli.output import or_dash, print_json, print_table, say

    with keeper(database, table, url) as kept:
        found = kept.parked(processor)
    if output == "json":
        print_json([as_object(each) for each in found])
    elif found:
        columns = ("stream", "tranche", "index", "events", "attempts", "parked at", "wanted", "why")
        rows = [
            [bare(each.parked.stream), bare(each.parked.tranche), each.parked.index, each.parked.events,
             each.parked.attempts, as_object(each)["parked_at"], or_dash(each.request),
             cut(f"{each.parked.tag}: {each.parked.detail}", DETAIL_CHARS)]
            for each in found
        ]  # fmt: skip
        print_table(columns, rows)
    else:
        say(f"{processor} has parked nothing.")


def retry(
    processor: ProcessorArgument,
    stream: Annotated[
        str | None, typer.Argument(metavar="STREAM", help="The stream's name, as `parked` shows it.")
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All streams that are parked.")] = False,
    database: KeptInOption = None,
    table: TableOption = TABLE,
    url: HubOption = URL,
    output: OutputOption = "text",
) -> None:
    """Have a parked stream tried again, from where it failed on, in order.

    Repair first what it failed for. A processor that runs takes it up within a second, another one when it starts. What
    fails again as often as it may is parked again.
    """
    from penstock.cli.output import counted, print_json, say

    if (stream is None) != everything:
        raise typer.BadParameter("say which stream, by its name or by --all", param_hint="STREAM")
    with keeper(database, table, url) as kept:
        found = kept.parked(processor) if stream is None else _parked(kept, processor, stream)
        meant = list(dict.fromkeys(each.parked.stream for each in found))
        for each in meant:
            kept.ask(processor, each, "retry")
    if output == "json":
        print_json({"processor": processor, "retried": meant})
    else:
        say(f"{counted(len(meant), 'stream')} of {processor} will be tried again")


def drop(
    processor: ProcessorArgument,
    stream: StreamArgument,
    *,
    reason: ReasonOption = None,
    yes: YesOption = False,
    database: KeptInOption = None,
    table: TableOption = TABLE,
    url: HubOption = URL,
    output: OutputOption = "text",
) -> None:
    """Pass over what waits of a parked stream, after asking: only what comes from now on is handled.

    A processor that runs takes it up within a second, another one when it starts.
    """
    from penstock.cli.asking import confirm
    from penstock.cli.event_line import bare
    from penstock.cli.output import counted, print_json, say

    with keeper(database, table, url) as kept:
        waiting = [each.parked.events for each in _parked(kept, processor, stream)]
        told = f"{counted(sum(waiting), 'event')} of {bare(stream)}"
        if not yes:
            confirm(f"Pass over {told} in {processor}, for ever?", done="dropped", does="drops")
        kept.ask(processor, stream, "skip", reason)
    if output == "json":
        print_json({"processor": processor, "stream": stream, "dropped_events": sum(waiting)})
    else:
        say(f"{told} will be passed over")


def as_object(parked: "ParkedAt") -> dict[str, Any]:
    """Return a parked stream for programs."""
    from dataclasses import asdict

    from penstock.cli.checkpoint.database_keeper import time_text

    return {**asdict(parked.parked), "parked_at": time_text(parked.at), "request": parked.request}


def _parked(kept: Keeper, processor: str, stream: str) -> "list[ParkedAt]":
    """Return what is parked of a stream.

    Raises:
        ParkedNotFound: nothing is; names the streams that may be meant.
    """
    from penstock.errors import ParkedNotFound

    known = kept.parked(processor)
    if found := [each for each in known if each.parked.stream == stream]:
        return found
    error = ParkedNotFound.of("parked-stream-not-found", processor=processor, stream=stream)
    if close := meant_by(stream, [each.parked.stream for each in known]):
        asks = f"{error.detail}; did you mean {' or '.join(map(repr, close))}?"
        raise ParkedNotFound.of("parked-stream-not-found", asks, **error.fields)
    raise error


def meant_by(given: str, known: "Sequence[str]") -> list[str]:
    """Return the few names among *known* that have in them what was *given*.

    >>> meant_by("ADA", ["order.placed-Ada", "order.placed-Bob"])
    ['order.placed-Ada']
    """
    return [name for name in dict.fromkeys(known) if given.lower() in name.lower()][:SUGGESTED_MAX]
