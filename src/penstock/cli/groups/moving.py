"""Moves positions in a database of the user's, for `penstock groups reset --database`."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import typer

from penstock.cli.groups.goals import MovedPart, MoveOptions, parse_offset, refuse_parked
from penstock.cli.groups.options import open_hub, open_own

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.cli.groups.own import OwnDatabase, TrancheProgress
    from penstock.core.log.start import Word


class OwnPlace(NamedTuple):
    """Where positions are kept, and the hub whose feeds are read."""

    database: str
    table: str
    url: str
    """The address of the hub that is asked where a start is."""
    asked_at: str | None
    """The address of the hub that checks whether a feed has a position; None: no check."""


class OwnGoal(NamedTuple):
    """Where a processor is to be moved; one of them is given."""

    to: str | None
    offsets: Sequence[str]
    like: str | None
    position: str | None


class MoveToPosition(NamedTuple):
    """A position that is moved."""

    tranche: str
    came_from: int | str | None
    went_to: int | str
    streams_again: int = 0
    """How many streams had done more than the position said, and are begun again from there."""


def move_own(
    name: str,
    goal: OwnGoal,
    selection: MovedPart,
    given: MoveOptions,
    place: OwnPlace,
) -> None:
    """Move a processor in a database of the user's, after asking."""
    with open_own(place.database, place.table) as own:
        before = _standings(own, name)
        if goal.like is not None:
            standings = {each.tranche: each for each in own.standings(goal.like)}
            meant = _chosen(standings, selection)
            if any(standings[each].parked for each in meant):
                refuse_parked(
                    goal.like, [each.parked.stream for each in own.parked(goal.like) if each.parked.tranche in meant]
                )
            wanted = {each: standings[each].position for each in meant}
        elif goal.to is not None:
            from penstock.cli.options import parse_start_option

            known = {each.tranche: each for each in own.standings(name)}
            wanted = _places(_chosen(known, selection), place.url, parse_start_option(goal.to, "--to"))
        else:
            wanted = _choose_positions(name, goal, selection, before, place)
        steps = _steps(own, name, before, wanted)
        _carry_out(own, name, steps, given, is_new=not before)


def _choose_positions(
    name: str,
    goal: OwnGoal,
    selection: MovedPart,
    before: Mapping[str, int | str],
    place: OwnPlace,
) -> dict[str, int | str]:
    """Return the positions that offsets, or a position in one tranche, mean.

    Raises:
        CommandFailure: the processor has no such tranche, or the feed no such place.
        BadParameter: it is not said which tranche, or the position is none.
    """
    from penstock.cli.failures import MISUSED, CommandFailure
    from penstock.cli.groups.places import check_place, read_position

    asked: dict[str, str]
    starts: dict[str, Word | datetime]
    if goal.position is not None:
        if selection.tranches is None or len(selection.tranches) != 1:
            raise typer.BadParameter("a position is one of a tranche: say which", param_hint="--tranche")
        asked, starts = {selection.tranches[0]: goal.position}, {}
    else:
        asked, starts = _offsets(goal.offsets, selection, before)
    for tranche in [*asked, *starts]:
        if before and tranche not in before:
            hint = f"Name one that it has: {', '.join(before)}."
            raise CommandFailure(f"{name} has no tranche {tranche!r}", hint, status=MISUSED)
    found: dict[str, int | str] = {}
    for tranche, position in asked.items():
        came_from = before.get(tranche)
        if place.asked_at is None:
            found[tranche] = read_position(position, came_from)
        else:
            found[tranche] = check_place(place.asked_at, tranche, position, came_from)
    for tranche, start in starts.items():
        found |= _places([tranche], place.url, start)
    return found


def _offsets(
    offsets: Sequence[str], selection: MovedPart, before: Mapping[str, int | str]
) -> "tuple[dict[str, str], dict[str, Word | datetime]]":
    if selection.tranches:
        raise typer.BadParameter("an offset is one of a partition: say --position", param_hint="--tranche")
    names = {each.rpartition("/")[0] for each in before}
    if selection.event_type is None and len(names) != 1:
        reads = ", ".join(sorted(names)) or "nothing yet"
        raise typer.BadParameter(f"say which event type; it reads {reads}", param_hint="--event-type")
    event_type = selection.event_type or names.pop()
    asked: dict[str, str] = {}
    starts: dict[str, Word | datetime] = {}
    for each in offsets:
        meant = parse_offset(each, selection.partition)
        tranche = f"{event_type}/{meant['partition']}"
        if "to" in meant:
            starts[tranche] = meant["to"]
        else:
            asked[tranche] = str(meant["offset"])
    return asked, starts


def summary(steps: Sequence[MoveToPosition]) -> str:
    """Return in words the number of moved positions, and the effect on events where it is known.

    >>> summary([MoveToPosition("order.placed/0", "1:30", "1:10"), MoveToPosition("order.placed/1", None, "1:7")])
    '2 positions, 20 events again'
    >>> summary([MoveToPosition("order.placed/0", "1:0", "1:0", 3)])
    '1 position, 3 streams again that had done more'
    """
    from penstock.cli.output import plural

    distances = [found for each in steps if (found := distance(each)) is not None]
    back, forward = -sum(each for each in distances if each < 0), sum(each for each in distances if each > 0)
    told = [plural(len(steps), "position")]
    told += [f"{plural(back, 'event')} again"] if back else []
    told += [f"{plural(forward, 'event')} passed over"] if forward else []
    if further := sum(each.streams_again for each in steps):
        told += [f"{plural(further, 'stream')} again that had done more"]
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


def _standings(own: "OwnDatabase", name: str) -> dict[str, int | str]:
    """Return where a processor is; nowhere, if nothing is kept of it."""
    from penstock.errors import NotFound

    try:
        found: Sequence[TrancheProgress] = own.standings(name)
    except NotFound:
        return {}
    return {each.tranche: each.position for each in found}


def _steps(
    own: "OwnDatabase", name: str, before: Mapping[str, int | str], wanted: Mapping[str, int | str]
) -> list[MoveToPosition]:
    """Return what is to be moved. Where a position stays, streams may have done more nevertheless."""
    further = own.further(name, wanted)
    steps = [MoveToPosition(each, before.get(each), to, further.get(each, 0)) for each, to in wanted.items()]
    return [each for each in steps if each.went_to != each.came_from or each.streams_again]


def _chosen(known: Collection[str], selection: MovedPart) -> list[str]:
    """Return which tranches are meant: those that are named, those of the partitions selected, or all.

    Raises:
        BadParameter: one that is named is not known, or none is meant.
    """
    has = ", ".join(sorted(known)[:10])
    if missing := sorted(set(selection.tranches or ()) - set(known)):
        raise typer.BadParameter(f"there is no tranche {missing[0]!r}; there are: {has}", param_hint="--tranche")
    found = [each for each in sorted(selection.tranches or known) if _is_selected(each, selection)]
    if not found:
        raise typer.BadParameter(f"there is no such tranche; there are: {has}", param_hint="--event-type, --partition")
    return found


def _is_selected(tranche: str, selection: MovedPart) -> bool:
    event_type, _, partition = tranche.rpartition("/")
    return selection.event_type in (None, event_type) and selection.partition in (None, _number(partition))


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else -1


def _places(tranches: Sequence[str], url: str, start: "Word | datetime") -> dict[str, int | str]:
    from penstock.cli.groups.places import Places

    with open_hub(url) as client:
        places = Places(client, url, start)
        return {each: places.of(each) for each in tranches}


def _carry_out(
    own: "OwnDatabase", name: str, steps: Sequence[MoveToPosition], given: MoveOptions, *, is_new: bool
) -> None:
    from penstock.cli.asking import confirm
    from penstock.cli.output import or_dash, print_json, print_table, say

    if steps and given.output == "text":
        print_table(
            ("tranche", "from", "to"), [(each.tranche, or_dash(each.came_from), each.went_to) for each in steps]
        )
    if steps and not given.dry_run:
        if not given.yes:
            where = f", {steps[0].tranche} to {steps[0].went_to}" if len(steps) == 1 else ""
            known = ", of which nothing is kept yet" if is_new else ""
            confirm(f"Move {name}{known}: {summary(steps)}{where}?", done="moved", does="moves")
        own.move(name, {each.tranche: each.went_to for each in steps}, given.reason)
    if given.output == "json":
        print_json({"name": name, "items": [each._asdict() for each in steps], "dry_run": given.dry_run})
    elif steps:
        say(f"{'would move' if given.dry_run else 'moved'} {name}: {summary(steps)}")
    else:
        say(f"{name} is there already.")
