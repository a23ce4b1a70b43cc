"""`penstock access`: lists, adds and removes the callers who have rights to the hub as a whole."""

from typing import Annotated, Final, Literal

import typer

from penstock.cli.helping import examples, group
from penstock.cli.options import DATABASE, DatabaseOption, OutputOption, member_parser

app = group("List, add and remove the callers who administer, read or write everything.", no_args_is_help=True)

ListName = Literal["admins", "readers", "writers"]
ListArgument = Annotated[
    ListName,
    typer.Argument(
        metavar="LIST",
        help="admins may do everything; readers may read all events and /metrics; writers may publish to everything.",
    ),
]
CallerArgument = Annotated[
    str, typer.Argument(metavar="TYPE:NAME", parser=member_parser(), help="The caller, such as service:prometheus.")
]
NO_ADMINISTRATORS: Final = "The list admins is empty. Add somebody, or name administrators by `penstock serve --admin`."


@app.command("list", epilog=examples("penstock access list", "penstock access list --output json"))
def list_members(*, database: DatabaseOption = DATABASE, output: OutputOption = "text") -> None:
    """Show who administers, reads and writes everything, besides the administrators of `penstock serve --admin`."""
    from penstock.cli.database import open_database
    from penstock.cli.output import print_json, print_table, say
    from penstock.hub.admin.settings import Settings

    with open_database(database) as store:
        store.check()
        lists = Settings(store, lambda: None).current().administration
    if output == "json":
        print_json({name: sorted(map(str, members)) for name, members in lists.items()})
    elif not any(lists.values()):
        say("All lists are empty: `penstock access add admins user:jane` makes user:jane an administrator of the hub.")
    else:
        print_table(("list", "caller"), [(name, each) for name, members in lists.items() for each in members])


@app.command(epilog=examples("penstock access add readers service:prometheus", "penstock access add admins user:jane"))
def add(
    name: ListArgument, caller: CallerArgument, *, database: DatabaseOption = DATABASE, output: OutputOption = "text"
) -> None:
    """Put a caller on a list of the hub; hubs that run follow within a second.

    The caller needs a credential as well, such as one of `penstock token create`.
    """
    _change(name, caller, database, output, adds=True)


@app.command(epilog=examples("penstock access remove admins service:deploy"))
def remove(
    name: ListArgument, caller: CallerArgument, *, database: DatabaseOption = DATABASE, output: OutputOption = "text"
) -> None:
    """Take a caller off a list of the hub; hubs that run follow within a second.

    Lists of event types and subscriptions are not changed, nor are the administrators of `penstock serve --admin`.
    """
    _change(name, caller, database, output, adds=False)


def _change(name: ListName, caller: str, database: str, output: str, *, adds: bool) -> None:
    from penstock.cli.database import find_operator, open_database
    from penstock.cli.failures import CommandFailure
    from penstock.cli.output import print_json, say, tell
    from penstock.core.access import Attribute
    from penstock.hub.admin.settings import Settings

    member = Attribute.parse(caller)
    with open_database(database) as store:
        store.check()
        settings = Settings(store, lambda: None)
        change = settings.add_member if adds else settings.remove_member
        has_changed = change(name, member, find_operator())
        lists = settings.current().administration
    if not adds and not has_changed:
        raise CommandFailure(f"{caller} is not one of the hub's {name}", "`penstock access list` shows who is.")
    if output == "json":
        print_json({each: sorted(map(str, members)) for each, members in lists.items()})
    elif adds:
        say(f"{caller} is {'now' if has_changed else 'already'} one of the hub's {name}")
    else:
        say(f"{caller} is no longer one of the hub's {name}")
    if not lists["admins"]:
        tell(NO_ADMINISTRATORS, style="yellow")
