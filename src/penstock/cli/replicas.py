"""`penstock replicas`: the callers whose reads go to replicas of the database, in the hub's own database."""

from typing import Annotated

import typer

from penstock.cli.helping import examples, group
from penstock.cli.options import DATABASE, DatabaseOption, OutputOption, member_parser

app = group("Choose the callers whose reads go to replicas of the database.", no_args_is_help=True)


@app.command(
    epilog=examples(
        "penstock replicas readers",
        "penstock replicas readers --only service:analytics --only service:search",
        "penstock replicas readers --nobody",
        "penstock replicas readers --everybody",
    )
)
def readers(
    *,
    everybody: Annotated[bool, typer.Option("--everybody", help="All callers, as by default.")] = False,
    nobody: Annotated[bool, typer.Option("--nobody", help="No caller: all reads go to the primary.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="TYPE:NAME", parser=member_parser(), help="This caller, and no other. Repeatable."
        ),
    ] = None,
    database: DatabaseOption = DATABASE,
    output: OutputOption = "text",
) -> None:
    """Show or replace the callers whose reads go to replicas; hubs that run follow within a second.

    The replicas themselves are named by `penstock serve --replica`.
    """
    from penstock.cli.database import find_operator, open_database
    from penstock.cli.failures import CommandFailure
    from penstock.cli.output import print_json, say
    from penstock.core.access import Attribute
    from penstock.hub.admin.settings import Settings

    if everybody + nobody + bool(only) > 1:
        raise CommandFailure("--everybody, --nobody and --only exclude each other", "Give one of them.")
    with open_database(database) as store:
        store.check()
        settings = Settings(store, lambda: None)
        if everybody or nobody or only:
            members = [Attribute.parse(each) for each in only or ()]
            given = [{"data_type": each.data_type, "value": each.value} for each in members]
            settings.replace_replica_readers(None if everybody else given, find_operator())
        found = settings.current().replica_readers
    if output == "json":
        print_json({"readers": None if found is None else [*map(str, found)]})
    elif found is None:
        say("The reads of all callers may go to replicas")
    else:
        say(f"Reads that may go to replicas: those of {', '.join(map(str, found)) or 'nobody'}")
