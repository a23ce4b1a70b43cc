"""`penstock subscription parked`: keys whose events wait, since one could not be processed."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.helping import examples, group
from penstock.cli.options import URL, OutputOption, UrlOption
from penstock.cli.subscription.finding import IdArgument

if TYPE_CHECKING:
    from penstock.client import ParkedKey

app = group(
    "Look at keys whose events wait, since one could not be processed; retry or skip them.", no_args_is_help=True
)

EVENT_CHARS: Final = 120
"""So much of an event is shown in a table."""

KeyArgument = Annotated[str, typer.Argument(metavar="KEY_ID", help="Which key, as `list` shows it.")]


@app.command("list", epilog=examples("penstock subscription parked list 5f0c"))
def list_parked(subscription: IdArgument, *, url: UrlOption = URL, output: OutputOption = "text") -> None:
    """List parked keys, those first that were parked first."""
    from penstock.cli.output import print_json, print_table, say
    from penstock.cli.subscription.finding import found, hub_at

    with hub_at(url) as client:
        parked = client.subscriptions.parked(found(client, subscription).id)
    if output == "json":
        print_json(parked)
    elif parked:
        columns = ("id", "event type", "partition", "key", "events", "attempts", "parked at", "state")
        rows = [
            [
                each.id,
                each.event_type,
                each.partition,
                _key(each),
                each.events,
                each.attempts,
                each.parked_at,
                each.state,
            ]
            for each in parked
        ]
        print_table(columns, rows)
    else:
        say("No key is parked.")


@app.command(
    epilog=examples("penstock subscription parked show 5f0c 7", "penstock subscription parked show 5f0c 7 -o json")
)
def show(
    subscription: IdArgument,
    key: KeyArgument,
    *,
    limit: Annotated[int, typer.Option(min=1, max=100, metavar="N", help="Not more than its first N events.")] = 10,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Show a parked key and the first of its events: the one that could not be processed, and those behind it.

    For people, long events are cut; --output json has them whole.
    """
    import msgspec

    from penstock.cli.event_line import cut
    from penstock.cli.output import counted, print_json, print_table, say
    from penstock.cli.subscription.finding import found, hub_at

    with hub_at(url) as client:
        parked = client.subscriptions.parked_key(found(client, subscription).id, key, limit=limit)
    if output == "json":
        print_json(parked)
        return
    where = f"partition {parked.partition} of {parked.event_type}"
    say(f"{parked.state}: {_told(parked)} in {where}, since {parked.parked_at}")
    say(f"{counted(parked.events, 'event')}, of which the first was sent {counted(parked.attempts, 'time')}")
    rows = [[each.offset, cut(msgspec.json.encode(each.event).decode(), EVENT_CHARS)] for each in parked.items]
    print_table(("offset", "event"), rows)


@app.command(
    epilog=examples("penstock subscription parked retry 5f0c 7", "penstock subscription parked retry 5f0c --all")
)
def retry(
    subscription: IdArgument,
    key: Annotated[str | None, typer.Argument(metavar="KEY_ID", help="Which key, as `list` shows it.")] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All keys that are parked.")] = False,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Have the events of a parked key sent again, in their order, to whoever has the partition.

    Repair first what they failed for. What is not committed this time is parked again.
    """
    from penstock.cli.output import counted, print_json, say
    from penstock.cli.subscription.finding import found, hub_at

    if (key is None) != everything:
        raise typer.BadParameter("say which key, by its KEY_ID or by --all", param_hint="KEY_ID")
    with hub_at(url) as client:
        count = client.subscriptions.retry_parked(found(client, subscription).id, key)
    if output == "json":
        print_json({"retried": count})
    else:
        say(f"{counted(count, 'key')} sent again")


@app.command(epilog=examples("penstock subscription parked skip 5f0c 7 --reason 'a test order'"))
def skip(
    subscription: IdArgument,
    key: KeyArgument,
    *,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why, which has to be said: `penstock groups history` shows it.")
    ] = None,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Let the events of a parked key wait no longer: they are not sent, and stay in the feed.

    Those ahead of events that are not committed yet are sent once these are.
    """
    from penstock.cli.output import counted, print_json, say
    from penstock.cli.subscription.finding import found, hub_at

    if reason is None or not reason.strip():
        detail = "say why these events are not wanted, such as --reason 'a test order'; it is kept"
        raise typer.BadParameter(detail, param_hint="--reason")
    with hub_at(url) as client:
        meant = found(client, subscription)
        parked = client.subscriptions.parked_key(meant.id, key, limit=1)
        client.subscriptions.skip_parked(meant.id, key, reason)
        ahead = sum(each.events for each in client.subscriptions.parked(meant.id) if each.id == parked.id)
    skipped = max(0, parked.events - ahead)
    if output == "json":
        print_json({"skipped_events": skipped, "events_ahead": ahead})
        return
    rest = f"; {counted(ahead, 'event')} ahead of the position will be sent" if ahead else ""
    say(f"skipped {counted(skipped, 'event')} of {_told(parked)}{rest}")


def _told(parked: "ParkedKey") -> str:
    return "an event without a key" if parked.key is None else f"key {_key(parked)}"


def _key(parked: "ParkedKey") -> str:
    from penstock.cli.event_line import bare

    return "-" if parked.key is None else bare(parked.key)
