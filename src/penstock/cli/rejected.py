"""`penstock rejected`: rows that could not be published are looked at, put into the outbox again, or deleted."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.helping import examples, group
from penstock.cli.options import DATABASE, DatabaseOption, OutputOption, YesOption

if TYPE_CHECKING:
    from penstock.hub.admin.rejected import RejectedChoice
    from penstock.storage.log.outbox import RejectedRow

app = group("Look at outbox rows that could not be published; put them back, or not.", no_args_is_help=True)

REASON_CHARS: Final = 200
EVENT_CHARS: Final = 80
"""Maximum number of characters of an event that a table shows."""

IdsArgument = Annotated[
    list[int] | None, typer.Argument(metavar="ID", min=1, max=2**63 - 1, help="Rows, as `list` shows them.")
]
EventTypeOption = Annotated[
    str | None, typer.Option("--event-type", metavar="NAME", help="Only rows of this event type.")
]
AllOption = Annotated[bool, typer.Option("--all", help="All rows.")]


@app.command("list", epilog=examples("penstock rejected list", "penstock rejected list 7 --output json"))
def list_rows(
    ids: IdsArgument = None,
    *,
    event_type: EventTypeOption = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="Not more than N rows.")] = 20,
    oldest: Annotated[bool, typer.Option("--oldest", help="The oldest first, not the newest.")] = False,
    database: DatabaseOption = DATABASE,
    output: OutputOption = "text",
) -> None:
    """Show outbox rows that could not be published, the newest first, each with the reason.

    For people, long texts are cut; --output json has the whole rows.
    """
    from penstock.cli.database import open_database
    from penstock.cli.output import number, print_json, say
    from penstock.hub.admin.rejected import RejectedRows
    from penstock.hub.background import system_clock

    choice = _choose(ids, event_type)
    with open_database(database) as store:
        store.check()
        rejected = RejectedRows(store, system_clock)
        found, rows = rejected.find(choice), rejected.list(choice, limit, newest=not oldest)
    if output == "json":
        print_json({"count": len(found), "rows": [row._asdict() for row in rows]})
    elif not rows:
        say("There are no rejected rows.")
    else:
        _show(rows)
        if len(rows) < len(found):
            say(f"{number(len(rows))} of {number(len(found))} rows; --limit shows more.")


@app.command(epilog=examples("penstock rejected retry 7 8", "penstock rejected retry --event-type order.placed"))
def retry(
    ids: IdsArgument = None,
    *,
    event_type: EventTypeOption = None,
    everything: AllOption = False,
    database: DatabaseOption = DATABASE,
    output: OutputOption = "text",
) -> None:
    """Put rows back into the outbox, in their order, to be published; all named rows, or none.

    Fix the cause first. A running hub publishes them at once. Rows that still cannot be published are rejected again,
    under a new id.
    """
    from penstock.cli.database import find_operator, open_database
    from penstock.cli.output import plural, print_json, say
    from penstock.hub.admin.rejected import RejectedRows
    from penstock.hub.background import system_clock

    _check_choice(ids, event_type, everything=everything)
    with open_database(database) as store:
        store.check()
        count = RejectedRows(store, system_clock).retry(_choose(ids, event_type), find_operator())
    if output == "json":
        print_json({"retried": count})
    else:
        say(f"{plural(count, 'row')} put back into the outbox")


@app.command(epilog=examples("penstock rejected delete 7 8", "penstock rejected delete --all --yes"))
def delete(
    ids: IdsArgument = None,
    *,
    event_type: EventTypeOption = None,
    everything: AllOption = False,
    yes: YesOption = False,
    database: DatabaseOption = DATABASE,
    output: OutputOption = "text",
) -> None:
    """Delete rows permanently, after asking; all named rows, or none.

    Rows that are rejected during the question are not deleted.
    """
    from penstock.cli.asking import confirm
    from penstock.cli.database import find_operator, open_database
    from penstock.cli.output import plural, print_json, say
    from penstock.hub.admin.rejected import RejectedRows
    from penstock.hub.background import system_clock

    _check_choice(ids, event_type, everything=everything)
    choice = _choose(ids, event_type)
    with open_database(database) as store:
        store.check()
        rejected = RejectedRows(store, system_clock)
        found = rejected.find(choice)
        if found and not yes:
            confirm(f"Delete {plural(len(found), 'rejected row')}, and with that the events, for ever?")
        count = rejected.delete_found(found, choice, find_operator())
    if output == "json":
        print_json({"deleted": count})
    else:
        say(f"{plural(count, 'row')} deleted")


def _check_choice(ids: Sequence[int] | None, event_type: str | None, *, everything: bool) -> None:
    if everything and (ids or event_type):
        raise typer.BadParameter("--all means all rows: leave out it, or the IDs and --event-type")
    if not (everything or ids or event_type):
        raise typer.BadParameter("say which rows: by ID, by --event-type, or --all")


def _choose(ids: Sequence[int] | None, event_type: str | None) -> "RejectedChoice":
    from penstock.hub.admin.rejected import RejectedChoice

    return RejectedChoice(ids or None, event_type)


def _show(rows: Sequence["RejectedRow"]) -> None:
    from penstock.cli.event_line import cut
    from penstock.cli.output import print_table

    table = [
        [row.id, cut(row.event_type, EVENT_CHARS), row.rejected_at, cut(row.reason, REASON_CHARS),
         cut(row.data, EVENT_CHARS)]
        for row in rows
    ]  # fmt: skip
    print_table(("id", "event type", "rejected at", "reason", "event"), table)
