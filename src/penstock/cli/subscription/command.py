"""`penstock subscription`: lists subscriptions, shows and deletes them; its other commands have files of their own."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.helping import examples, group, prose
from penstock.cli.options import URL, OutputOption, UrlOption, YesOption
from penstock.cli.subscription import create, parked, reset, stats
from penstock.cli.subscription.finding import IdArgument

if TYPE_CHECKING:
    from penstock.client import ConsumerGroup, SubscribedPartition, Subscription

app = group(
    "Create subscriptions, see who reads what and how far behind they are, move them, help them over events that"
    " cannot be processed.",
    no_args_is_help=True,
)

app.command(
    help=prose(create.create),
    epilog=examples(
        "penstock subscription create order.placed --application billing",
        "penstock subscription create order.placed order.paid --application billing --from begin --park-after 3",
        "penstock subscription create order.placed --application billing --group replay --from cursors.json",
    ),
)(create.create)


@app.command(
    "list", epilog=examples("penstock subscription list", "penstock subscription list --event-type order.placed")
)
def list_all(
    *,
    application: Annotated[
        str | None,
        typer.Option("--application", "--owning-application", metavar="NAME", help="Only those of this application."),
    ] = None,
    event_type: Annotated[
        list[str] | None,
        typer.Option(
            "--event-type", metavar="NAME", help="Only those that read it. Repeatable: that read all of these."
        ),
    ] = None,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """List subscriptions, the newest first: whose they are, who has their partitions, and how far behind they are."""
    from penstock.cli.output import print_json, print_table, say
    from penstock.cli.subscription.finding import hub_at, shortened

    with hub_at(url) as client:
        subscriptions = client.subscriptions.all(
            owning_application=application, event_types=event_type or (), status=True
        )
        for name in () if subscriptions else event_type or ():
            client.event_type(name)  # Raises where there is none: nobody can have subscribed to it.
        groups = client.consumer_groups(kind="subscription") if subscriptions else []
    behind = {each.name: each for each in groups}
    if output == "json":
        print_json([_as_object(each, behind.get(each.id)) for each in subscriptions])
    elif subscriptions:
        columns = ("id", "application", "group", "event types", "partitions", "held by", "to go", "lag")
        ids = shortened([each.id for each in subscriptions])
        print_table(columns, [[short, *_row(each, behind)] for short, each in zip(ids, subscriptions, strict=True)])
    else:
        such = " such" if application or event_type else ""
        say(f"There are no{such} subscriptions: `penstock subscription create` makes one.")


@app.command(epilog=examples("penstock subscription show 5f0c", "penstock subscription show 5f0c --output json"))
def show(subscription: IdArgument, *, url: UrlOption = URL, output: OutputOption = "text") -> None:
    """Show a subscription: what it is, which stream has what, and which keys are parked."""
    import msgspec

    from penstock.cli.event_line import bare
    from penstock.cli.output import counted, print_json, print_table, say
    from penstock.cli.subscription.finding import found, hub_at, of

    with hub_at(url) as client:
        meant = found(client, subscription)
        partitions = client.subscriptions.stats(meant.id)
        keys = client.subscriptions.parked(meant.id)
    if output == "json":
        rows = [stats.partition_object(each) for each in partitions]
        print_json(msgspec.structs.asdict(meant) | {"partitions": rows, "parked_keys": len(keys)})
        return
    say(f"{meant.id}  {of(meant)}")
    say(f"created {meant.created_at}, from {meant.read_from}")
    for name, value in sorted({**meant.labels, **meant.annotations}.items()):
        say(bare(f"{name}: {value}"))
    say(stats.total(partitions))
    if streams := _by_stream(partitions):
        print_table(("stream", "partitions", "to go"), streams)
    if keys:
        say(f"{counted(len(keys), 'key')} parked: `penstock subscription parked list {meant.id}`")


@app.command(epilog=examples("penstock subscription delete 5f0c", "penstock subscription delete 5f0c --yes"))
def delete(
    subscription: IdArgument,
    *,
    yes: YesOption = False,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Delete a subscription with its cursors and parked keys, after asking; its streams end."""
    from penstock.cli.asking import confirm
    from penstock.cli.output import print_json, say
    from penstock.cli.subscription.finding import found, hub_at, of

    with hub_at(url) as client:
        meant = found(client, subscription)
        if not yes:
            standing = stats.total(client.subscriptions.stats(meant.id))
            confirm(f"Delete {meant.id} ({of(meant)}; {standing}) for ever?")
        client.subscriptions.delete(meant.id)
    if output == "json":
        print_json({"id": meant.id})
    else:
        say(f"deleted {meant.id} ({of(meant)})")


app.command(
    help=prose(stats.stats),
    epilog=examples("penstock subscription stats 5f0c", "penstock subscription stats 5f0c --watch"),
)(stats.stats)
app.command(
    help=prose(reset.reset),
    epilog=examples(
        "penstock subscription reset 5f0c --to 2026-11-20T10:00:00Z --reason 'invoices were lost'",
        "penstock subscription reset 5f0c --to begin --dry-run",
        "penstock subscription reset 5f0c --offset 0=1200 --offset 3=980",
    ),
)(reset.reset)
app.add_typer(parked.app, name="parked")


def _as_object(subscription: "Subscription", group: "ConsumerGroup | None") -> dict[str, Any]:
    import msgspec

    standing = {"gap": group.gap, "lag_seconds": group.lag_seconds} if group else {"gap": None, "lag_seconds": None}
    return msgspec.structs.asdict(subscription) | {"partitions": _held(subscription)} | standing


def _held(subscription: "Subscription") -> list[dict[str, Any]]:
    """Return who has which partition, without what a list does not ask for."""
    names = ("event_type", "partition", "state", "stream_id", "assignment_type")
    return [{name: getattr(each, name) for name in names} for each in subscription.partitions or ()]


def _row(subscription: "Subscription", groups: "Mapping[str, ConsumerGroup]") -> list[object]:
    from penstock.cli.event_line import bare
    from penstock.cli.output import age, counted, or_dash

    partitions, group = subscription.partitions or [], groups.get(subscription.id)
    streams = len({each.stream_id for each in partitions if each.stream_id})
    gap, lag = (None, None) if group is None else (group.gap, group.lag_seconds)
    return [
        bare(subscription.owning_application),
        bare(subscription.consumer_group),
        ", ".join(subscription.event_types),
        len(partitions),
        counted(streams, "stream") if streams else "nobody",
        or_dash(gap),
        "-" if lag is None else age(lag),
    ]


def _by_stream(partitions: "Iterable[SubscribedPartition]") -> list[list[object]]:
    """Return of each stream which partitions it has, and how much is to go there."""
    held: dict[str, dict[str, list[int]]] = {}
    left: dict[str, int] = {}
    for each in partitions:
        if each.stream_id is not None:
            held.setdefault(each.stream_id, {}).setdefault(each.event_type, []).append(each.partition)
            left[each.stream_id] = left.get(each.stream_id, 0) + (each.unconsumed_events or 0)
    return [
        [stream, "; ".join(f"{name} {', '.join(map(str, numbers))}" for name, numbers in found.items()), left[stream]]
        for stream, found in sorted(held.items())
    ]
