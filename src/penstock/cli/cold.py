"""`penstock cold`: the files of the cold tier, and the events in them."""

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.helping import examples, group
from penstock.cli.options import DATABASE, ColdOption, DatabaseOption, OutputOption, YesOption

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.hub.cold.files import ListedFile
    from penstock.storage.store import Store

app = group(
    "List and verify the files of the cold tier; move their events back, or make feeds of them.", no_args_is_help=True
)
EventTypeArgument = Annotated[
    str | None, typer.Argument(metavar="[EVENT_TYPE]", help="Only the files of this event type.")
]


@app.command("list", epilog=examples("penstock cold list", "penstock cold list order.placed --output json"))
def list_files(
    event_type: EventTypeArgument = None, *, database: DatabaseOption = DATABASE, output: OutputOption = "text"
) -> None:
    """Show the files of the cold tier: the offsets, times and sizes of the events in each."""
    from penstock.cli.database import open_database
    from penstock.cli.output import number, plural, print_json, print_table, say
    from penstock.core.times import format_time
    from penstock.hub.cold import files

    with open_database(database) as store:
        store.check()
        found = files.list_files(store, event_type)
    if output == "json":
        print_json([_describe(each) for each in found])
    elif not found:
        say("No events are in files of a cold tier.")
    else:
        print_table(
            ("event type", "partition", "offsets", "events", "data", "file", "received from", "file name"),
            [
                (
                    each.event_type,
                    each.partition,
                    f"{each.file.start}-{each.file.stop - 1}",
                    number(each.file.content.events),
                    _size(each.file.content.data_bytes),
                    _size(each.file.file_bytes),
                    format_time(each.file.content.received_from)[:19],
                    each.file.path.rpartition("/")[2],
                )
                for each in found
            ],
        )
        events, data, stored = (
            sum(each.file.content.events for each in found),
            sum(each.file.content.data_bytes for each in found),
            sum(each.file.file_bytes for each in found),
        )
        say(f"{plural(len(found), 'file')} with {plural(events, 'event')}: {_size(data)} of data in {_size(stored)}")


@app.command(
    epilog=examples(
        "penstock cold verify --cold s3://archive/shop",
        "penstock cold verify order.placed --cold file:///srv/cold",
        "penstock cold verify --remove-unknown --cold s3://archive/shop",
        "penstock cold verify --relink --cold s3://archive/shop",
        "penstock cold verify --accept-missing --cold s3://archive/shop",
    )
)
def verify(
    event_type: EventTypeArgument = None,
    *,
    remove_unknown: Annotated[
        bool, typer.Option("--remove-unknown", help="Delete files that the database does not know.")
    ] = False,
    relink: Annotated[
        bool,
        typer.Option("--relink", help="Take unknown files in place of missing ones that they have replaced."),
    ] = False,
    accept_missing: Annotated[
        bool,
        typer.Option(
            "--accept-missing",
            help="Give the events of damaged and missing files up; readers pass over them, as over erased events.",
        ),
    ] = False,
    yes: YesOption = False,
    cold: ColdOption,
    database: DatabaseOption = DATABASE,
    output: OutputOption = "text",
) -> None:
    """Read the files whole, and tell which do not have the events that were sealed in them.

    It ends with status 1 if a file is damaged or missing. Where it cannot be brought back, --accept-missing has an
    empty one take its place, after asking. Files that the database does not know are what killed hubs have left;
    nothing needs them. But after the restore of a backup they may have replaced missing files, when events were erased:
    these are never deleted, and with --relink the database names them.
    """
    from penstock.cli.database import open_database
    from penstock.cli.output import plural, print_json, print_table, say
    from penstock.hub.background import system_clock
    from penstock.hub.cold import files, relinking

    with open_database(database, cold=cold) as store:
        store.check()
        listed = files.list_files(store, event_type)
        with _progress("verifying", sum(each.file.content.events for each in listed)) as advance:
            faults = [*files.verify(store, event_type, lambda each: advance(each.file.content.events))]
        unknown = files.find_unknown(store)
        replacements = relinking.find_replacements(store, unknown)
        relinked = [each for each in replacements if relink and relinking.relink(store, each, system_clock)]
        faults = [each for each in faults if each.path not in {one.missing.file.path for one in relinked}]
        unknown = [each for each in unknown if each not in {one.path for one in replacements}]
        if remove_unknown:
            files.delete_unknown(store, unknown)
        lost = {each.path for each in faults} - {each.missing.file.path for each in replacements}
        given_up = 0
        if accept_missing:
            given_up = _give_up(store, [each for each in listed if each.file.path in lost], asks=not yes)
            faults = [each for each in faults if each.path not in lost]
    shown = [(each.missing.file.path, each.path, each in relinked) for each in replacements]
    if output == "json":
        found = {"files": len(listed), "damaged": [each._asdict() for each in faults], "unknown": unknown}
        replaced = [dict(zip(("missing", "replacement", "relinked"), each, strict=True)) for each in shown]
        print_json(found | {"removed": remove_unknown, "replaced": replaced, "given_up": given_up})
    else:
        say(f"{len(listed) - len(faults)} of {len(listed)} files have the events that were sealed in them")
        if faults:
            print_table(("file", "fault"), faults)
        if given_up:
            say(f"gave up {plural(given_up, 'event')}; readers pass over them")
        if shown:
            rows = [(missing, path, "yes" if is_relinked else "no") for missing, path, is_relinked in shown]
            print_table(("missing file", "replaced by", "relinked"), rows)
        if unknown:
            print_table(("unknown file" if not remove_unknown else "removed",), [(each,) for each in unknown])
    if faults:
        raise typer.Exit(1)


def _give_up(store: "Store", lost: "Sequence[ListedFile]", *, asks: bool) -> int:
    """Give up the events of files, after asking; return how many there were."""
    from penstock.cli.asking import confirm
    from penstock.cli.output import plural
    from penstock.hub.background import system_clock
    from penstock.hub.cold.replacing import replace_by_empty

    if lost and asks:
        events = plural(sum(each.file.content.events for each in lost), "event")
        paths = ", ".join(each.file.path for each in lost[:3]) + (", …" if len(lost) > 3 else "")
        confirm(
            f"Give up {events} of {plural(len(lost), 'file')} for ever: {paths}?",
            done="given up",
            does="gives them up",
        )
    return sum(replace_by_empty(store, each, system_clock) for each in lost)


@app.command(epilog=examples("penstock cold fetch order.placed --cold s3://archive/shop"))
def fetch(
    event_type: Annotated[str, typer.Argument(metavar="EVENT_TYPE", help="The event type.")],
    *,
    yes: YesOption = False,
    cold: ColdOption,
    database: DatabaseOption = DATABASE,
    output: OutputOption = "text",
) -> None:
    """Move the sealed events of an event type back into the database, and delete their files.

    Hubs may run, with --cold-after never: else they seal the events again. Readers find every event all the while. If
    it is interrupted, run it again.
    """
    from penstock.cli.asking import confirm
    from penstock.cli.database import open_database
    from penstock.cli.output import plural, print_json, say
    from penstock.hub.background import system_clock
    from penstock.hub.cold import files
    from penstock.hub.cold.fetching import fetch as fetch_events

    with open_database(database, cold=cold) as store:
        store.check()
        total = sum(each.file.content.events for each in files.list_files(store, event_type))
        if not yes:
            confirm(
                f"Move {plural(total, 'event')} of {event_type} into the database? Its hubs must not seal meanwhile."
            )
        with _progress("moving", total) as advance:
            moved = fetch_events(store, event_type, system_clock, advance)
    if output == "json":
        print_json({"event_type": event_type, "events": moved})
    else:
        say(f"moved {plural(moved, 'event')} of {event_type} into the database")


@app.command(
    epilog=examples(
        "penstock cold adopt --database sqlite:///new.db --cold s3://archive/shop",
        "penstock cold adopt --accept-missing --database postgresql://shop@db/shop --cold file:///srv/cold",
    )
)
def adopt(
    *,
    accept_missing: Annotated[
        bool,
        typer.Option(
            "--accept-missing",
            help="Go on though offsets are in no file; readers pass over them, as over erased events.",
        ),
    ] = False,
    cold: ColdOption,
    database: DatabaseOption = DATABASE,
    output: OutputOption = "text",
) -> None:
    """Make feeds of the files of a cold tier after the loss of its database, in a new one.

    Events that had not been sealed are lost, and so are subscriptions, groups and settings. Cursors of the lost
    database are refused as expired. The files stay where they are, and belong to the new database.
    """
    from penstock.cli.database import open_database
    from penstock.cli.output import print_json, print_table, say, working
    from penstock.hub.background import system_clock
    from penstock.hub.cold.adopting import adopt as adopt_files

    with open_database(database, create=True, cold=cold) as store:
        store.migrate()
        with working("reading all files"):
            found = adopt_files(store, system_clock, accepts_missing=accept_missing)
    if output == "json":
        print_json([each._asdict() for each in found])
    elif not found:
        say("The cold tier has no events, and belongs to this database now.")
    else:
        columns = ("event type", "partition", "offsets", "files", "missing")
        print_table(
            columns,
            [
                (
                    each.event_type,
                    each.partition,
                    f"{each.start}-{each.stop - 1}",
                    each.files,
                    ", ".join(f"{start}-{stop - 1}" for start, stop in each.missing) or "-",
                )
                for each in found
            ],
        )


@contextmanager
def _progress(what: str, total: int) -> "Iterator[Any]":
    from penstock.cli.output import progress

    with progress() as display:
        task = display.add_task(what, total=total, events=0)
        done = 0

        def advance(events: int) -> None:
            nonlocal done
            done += events
            display.update(task, completed=done, events=done)

        yield advance


def _describe(each: "ListedFile") -> dict[str, Any]:
    from penstock.core.times import format_time

    content = each.file.content
    return {
        "event_type": each.event_type,
        "partition": each.partition,
        "start": each.file.start,
        "stop": each.file.stop,
        "events": content.events,
        "data_bytes": content.data_bytes,
        "file_bytes": each.file.file_bytes,
        "received_from": format_time(content.received_from),
        "received_to": format_time(content.received_to),
        "digest": content.digest,
        "path": each.file.path,
    }


def _size(size: int) -> str:
    unit, name = next(
        ((unit, name) for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")) if size >= unit), (1, "B")
    )
    return f"{size / unit:,.3g} {name}"
