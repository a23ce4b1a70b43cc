"""`penstock checkpoint`: lists and shows how far processors are; its other commands have files of their own."""

from typing import Annotated

import typer

from penstock.cli.checkpoint import moving, parked
from penstock.cli.checkpoint.keeper import TABLE, HubOption, KeptInOption, ProcessorArgument, TableOption
from penstock.cli.checkpoint.opening import given_url, keeper
from penstock.cli.helping import examples, group, prose
from penstock.cli.options import URL, OutputOption, YesOption

app = group(
    "See how far processors are, move them, help them with streams that are parked. Their positions are kept in a"
    " database of yours, --database, or else by a hub.",
    no_args_is_help=True,
)
SHOP = "--database sqlite:///shop.db"


@app.command("list", epilog=examples(f"penstock checkpoint list {SHOP}", "penstock checkpoint list"))
def list_all(
    context: typer.Context,
    *,
    database: KeptInOption = None,
    table: TableOption = TABLE,
    url: HubOption = URL,
    output: OutputOption = "text",
) -> None:
    """List processors whose positions are kept: what each reads, how far it is behind, and how many streams it parks.

    Of positions in a database, the hub that --hub names is asked how far they are behind.
    """
    from penstock.cli.output import age, or_dash, print_json, print_table, say

    with keeper(database, table, url, gaps_at=given_url(context, url)) as kept:
        found = kept.processors()
    if output == "json":
        print_json([each._asdict() for each in found])
    elif found:
        columns = ("processor", "reads", "tranches", "gap", "lag", "parked", "moved at")
        rows = [
            [each.processor, ", ".join(each.reads), or_dash(each.tranches), or_dash(each.gap),
             "-" if each.lag_seconds is None else age(each.lag_seconds), or_dash(each.parked), or_dash(each.updated_at)]
            for each in found
        ]  # fmt: skip
        print_table(columns, rows)
    else:
        say("No positions of processors are kept there.")


@app.command(
    epilog=examples(f"penstock checkpoint show greeter {SHOP}", "penstock checkpoint show greeter --output json")
)
def show(
    context: typer.Context,
    processor: ProcessorArgument,
    *,
    database: KeptInOption = None,
    table: TableOption = TABLE,
    url: HubOption = URL,
    output: OutputOption = "text",
) -> None:
    """Show where a processor is in each tranche: all before its position is handled, but what is parked.

    Gap and lag are known to a hub that keeps the positions; of those in a database, the one that --hub names is asked.
    """
    from penstock.cli.output import age, or_dash, print_json, print_table

    with keeper(database, table, url, gaps_at=given_url(context, url)) as kept:
        found = kept.standings(processor)
    if output == "json":
        print_json([each._asdict() for each in found])
        return
    rows = [
        [each.tranche, str(each.position), or_dash(each.gap),
         "-" if each.lag_seconds is None else age(each.lag_seconds), or_dash(each.parked), each.updated_at]
        for each in found
    ]  # fmt: skip
    print_table(("tranche", "position", "gap", "lag", "parked", "moved at"), rows)


app.command(
    "set",
    help=prose(moving.set_position),
    epilog=examples(
        f"penstock checkpoint set greeter --tranche order.placed/0 --position 1:1200 --reason 'a bad event' {SHOP}"
    ),
)(moving.set_position)
app.command(
    help=prose(moving.rewind),
    epilog=examples(
        f"penstock checkpoint rewind greeter --to 2026-11-20T10:00:00Z {SHOP} --hub http://127.0.0.1:8080 --dry-run",
        "penstock checkpoint rewind greeter --to earliest --reason 'mails were lost'",
        f"penstock checkpoint rewind greeter2 --like greeter {SHOP}",
    ),
)(moving.rewind)


@app.command(
    epilog=examples(
        f"penstock checkpoint history greeter {SHOP}", "penstock checkpoint history greeter --limit 5 -o json"
    )
)
def history(
    processor: ProcessorArgument,
    *,
    limit: Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="Not more than the last N.")] = 20,
    database: KeptInOption = None,
    table: TableOption = TABLE,
    url: HubOption = URL,
    output: OutputOption = "text",
) -> None:
    """Show what was done to a processor over its head, the newest first, and why."""
    from penstock.cli.event_line import bare
    from penstock.cli.output import or_dash, print_json, print_table, say

    with keeper(database, table, url) as kept:
        found = kept.history(processor, limit)
    if output == "json":
        print_json([each._asdict() for each in found])
    elif found:
        rows = [
            [each.at, each.tranche, or_dash(each.came_from), or_dash(each.went_to), bare(each.reason or "-")]
            for each in found
        ]
        print_table(("at", "tranche", "from", "to", "reason"), rows)
    else:
        say(f"Nobody has moved {processor}.")


app.command(help=prose(parked.parked), epilog=examples(f"penstock checkpoint parked greeter {SHOP}"))(parked.parked)
app.command(
    help=prose(parked.retry),
    epilog=examples(
        f"penstock checkpoint retry greeter order.placed-7 {SHOP}", f"penstock checkpoint retry greeter --all {SHOP}"
    ),
)(parked.retry)
app.command(help=prose(parked.drop), epilog=examples(f"penstock checkpoint drop greeter order.placed-7 {SHOP}"))(
    parked.drop
)


@app.command(epilog=examples(f"penstock checkpoint forget greeter {SHOP}", "penstock checkpoint forget greeter --yes"))
def forget(
    processor: ProcessorArgument,
    *,
    yes: YesOption = False,
    database: KeptInOption = None,
    table: TableOption = TABLE,
    url: HubOption = URL,
    output: OutputOption = "text",
) -> None:
    """Forget a processor: its positions, what it has parked, and its history, after asking. It begins anew."""
    from penstock.cli.asking import confirm
    from penstock.cli.output import counted, print_json, say

    with keeper(database, table, url) as kept:
        found = kept.standings(processor)
        if not yes:
            confirm(f"Forget {processor}, which has {counted(len(found), 'position')}, for ever?")
        kept.forget(processor)
    if output == "json":
        print_json({"processor": processor, "deleted_positions": len(found)})
    else:
        say(f"forgot {processor}")
