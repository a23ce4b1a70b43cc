"""`penstock checkpoint set` and `rewind`: move a processor, after showing where to and asking."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from penstock.cli.checkpoint.keeper import (
    TABLE,
    HubOption,
    Keeper,
    KeptInOption,
    ProcessorArgument,
    TableOption,
    TrancheProgress,
)
from penstock.cli.checkpoint.opening import given_url, keeper
from penstock.cli.options import START_HELP, START_METAVAR, URL, OutputOption, YesOption, parse_start_option

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.core.log.start import Word

SHOWN_MAX: Final = 5
ReasonOption = Annotated[str | None, typer.Option(metavar="TEXT", help="Why; `penstock checkpoint history` shows it.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be moved.")]


class MoveToPosition(NamedTuple):
    """A position that is moved."""

    tranche: str
    came_from: int | str | None
    went_to: int | str
    streams_again: int = 0
    """How many streams had done more than the position said, and are begun again from there."""


def set_position(
    context: typer.Context,
    processor: ProcessorArgument,
    *,
    tranche: Annotated[str, typer.Option(metavar="NAME", help="Which tranche, as `show` has it.")],
    position: Annotated[
        str, typer.Option(metavar="POSITION", help="Where it is to go on; of a feed EPOCH:OFFSET, or the offset.")
    ],
    reason: ReasonOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    database: KeptInOption = None,
    table: TableOption = TABLE,
    url: HubOption = URL,
    output: OutputOption = "text",
) -> None:
    """Move a processor to a position in one tranche, after asking.

    Of positions in a database, the hub that --hub names is asked whether the feed has such a place. Stop it before: one
    that runs is noticed with its next commit, and ends.
    """
    from penstock.cli.checkpoint.places import checked_place, checked_position
    from penstock.cli.failures import MISUSED, CommandFailure

    with keeper(database, table, url) as kept:
        before = _standings(kept, processor)
        if before and tranche not in before:
            hint = f"Name one that it has: {', '.join(before)}."
            raise CommandFailure(f"{processor} has no tranche {tranche!r}", hint, status=MISUSED)
        came_from = before.get(tranche)
        asked_at = None if database is None else given_url(context, url)  # A hub that keeps them looks itself.
        if asked_at is None:
            went_to = checked_position(position, came_from)
        else:
            went_to = checked_place(asked_at, tranche, position, came_from)
        steps = _steps(kept, processor, before, {tranche: went_to})
        is_new = not before
        _carry_out(kept, processor, steps, reason, is_new=is_new, dry_run=dry_run, yes=yes, output=output)


def rewind(
    processor: ProcessorArgument,
    *,
    to: Annotated[
        str | None,
        typer.Option(metavar=START_METAVAR, help=START_HELP),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(metavar="PROCESSOR", help="Where another processor is, that is kept in the same place."),
    ] = None,
    tranche: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only in this tranche; else in all. Repeatable.")
    ] = None,
    reason: ReasonOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    database: KeptInOption = None,
    table: TableOption = TABLE,
    url: HubOption = URL,
    output: OutputOption = "text",
) -> None:
    """Move a processor back, or forward, after asking; all tranches that are meant, or none.

    The hub whose feeds it reads is asked where --to is; of other sources nobody can tell. Stop it before: one that
    runs is noticed with its next commit, and ends.
    """
    if (to is None) == (like is None):
        raise typer.BadParameter("say where to, by --to or by --like", param_hint="--to")
    with keeper(database, table, url) as kept:
        if like is not None:
            before = _standings(kept, processor)
            wanted = _places_of(kept, like, tranche)
        else:
            before = {each.tranche: each.position for each in kept.standings(processor)}
            wanted = _places(_chosen(before, tranche), url, parse_start_option(str(to), "--to"))
        meant = _chosen(wanted, tranche)
        steps = _steps(kept, processor, before, {each: wanted[each] for each in meant})
        is_new = not before
        _carry_out(kept, processor, steps, reason, is_new=is_new, dry_run=dry_run, yes=yes, output=output)


def summary(steps: Sequence[MoveToPosition]) -> str:
    """Return in words how many positions are moved, and what that means where that can be told.

    >>> summary([MoveToPosition("order.placed/0", "1:30", "1:10"), MoveToPosition("order.placed/1", None, "1:7")])
    '2 positions, 20 events again'
    >>> summary([MoveToPosition("order.placed/0", "1:0", "1:0", 3)])
    '1 position, 3 streams again that had done more'
    """
    from penstock.cli.output import counted

    distances = [found for each in steps if (found := distance(each)) is not None]
    back, forward = -sum(each for each in distances if each < 0), sum(each for each in distances if each > 0)
    told = [counted(len(steps), "position")]
    told += [f"{counted(back, 'event')} again"] if back else []
    told += [f"{counted(forward, 'event')} passed over"] if forward else []
    if further := sum(each.streams_again for each in steps):
        told += [f"{counted(further, 'stream')} again that had done more"]
    return ", ".join(told)


def distance(step: MoveToPosition) -> int | None:
    """Return by how many events a feed's position is moved; None: it is none, or of another epoch."""
    from penstock.errors import BadParameter
    from penstock.processing.sources.feed_position import FeedPosition

    try:
        before, after = FeedPosition.decode(str(step.came_from)), FeedPosition.decode(str(step.went_to))
    except BadParameter:
        return None
    return after.offset - before.offset if before.epoch == after.epoch else None


def _standings(kept: Keeper, processor: str) -> dict[str, int | str]:
    """Return where a processor is; nowhere, if nothing is kept of it."""
    from penstock.errors import NotFound

    try:
        found: Sequence[TrancheProgress] = kept.standings(processor)
    except NotFound:
        return {}
    return {each.tranche: each.position for each in found}


def _steps(
    kept: Keeper, processor: str, before: Mapping[str, int | str], wanted: Mapping[str, int | str]
) -> list[MoveToPosition]:
    """Return what is to be moved. Where a position stays, streams may have done more nevertheless."""
    further = kept.further(processor, wanted)
    steps = [MoveToPosition(each, before.get(each), to, further.get(each, 0)) for each, to in wanted.items()]
    return [each for each in steps if each.went_to != each.came_from or each.streams_again]


def _chosen(known: Mapping[str, int | str], tranches: Sequence[str] | None) -> list[str]:
    """Return which tranches are meant: those that are named, or all.

    Raises:
        BadParameter: one that is named is not known.
    """
    if missing := sorted(set(tranches or ()) - known.keys()):
        has = ", ".join(sorted(known)[:10])
        raise typer.BadParameter(f"there is no tranche {missing[0]!r}; there are: {has}", param_hint="--tranche")
    return sorted(tranches or known)


def _places_of(kept: Keeper, processor: str, tranches: Sequence[str] | None) -> dict[str, int | str]:
    """Return where a processor is, in those tranches that are named, or in all.

    Raises:
        CommandFailure: it has parked streams there, which whoever begins where it is would never be given.
    """
    from penstock.cli.event_line import bare
    from penstock.cli.failures import CommandFailure
    from penstock.cli.output import counted

    standings = {each.tranche: each for each in kept.standings(processor)}
    meant = _chosen({name: each.position for name, each in standings.items()}, tranches)
    if any(standings[each].parked for each in meant):
        parked = sorted({each.parked.stream for each in kept.parked(processor) if each.parked.tranche in meant})
        shown = ", ".join(map(bare, parked[:SHOWN_MAX])) + (" …" if parked[SHOWN_MAX:] else "")
        hint = (
            f"Who begins where {processor} is would never be given their events, which are before that: retry or drop"
            " them first."
        )
        raise CommandFailure(f"{processor} has parked {counted(len(parked), 'stream')} there: {shown}", hint)
    return {each: standings[each].position for each in meant}


def _places(tranches: Sequence[str], url: str, start: "Word | datetime") -> dict[str, int | str]:
    from penstock.cli.checkpoint.places import Places
    from penstock.cli.hub import open_client

    with open_client(url, retry_timeout=0) as client:
        places = Places(client, url, start)
        return {each: places.of(each) for each in tranches}


def _carry_out(
    kept: Keeper,
    processor: str,
    steps: Sequence[MoveToPosition],
    reason: str | None,
    *,
    is_new: bool,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    from penstock.cli.asking import confirm
    from penstock.cli.output import or_dash, print_json, print_table, say

    rows = [(each.tranche, or_dash(each.came_from), each.went_to) for each in steps]
    if steps and not dry_run:
        if not yes:
            where = f", {steps[0].tranche} to {steps[0].went_to}" if len(steps) == 1 else ""
            known = ", of which nothing is kept yet" if is_new else ""
            confirm(f"Move {processor}{known}: {summary(steps)}{where}?", done="moved", does="moves")
        kept.move(processor, {each.tranche: each.went_to for each in steps}, reason)
    if output == "json":
        items = [each._asdict() for each in steps]
        print_json({"processor": processor, "items": items, "dry_run": dry_run})
    elif steps:
        say(f"{'would move' if dry_run else 'moved'} {processor}: {summary(steps)}")
        print_table(("tranche", "from", "to"), rows)
    else:
        say(f"{processor} is there already.")
