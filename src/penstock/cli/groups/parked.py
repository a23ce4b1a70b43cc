"""`penstock groups parked`: what consumers have set aside, since an event of it could not be processed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from penstock.cli.groups.options import (
    SUBSCRIPTION,
    TABLE,
    DatabaseOption,
    HubOption,
    NameArgument,
    TableOption,
    ask_about_group,
    open_hub,
    open_own,
)
from penstock.cli.helping import examples, group
from penstock.cli.options import URL, OutputOption

if TYPE_CHECKING:
    from penstock.client import Client, GroupParkedStream, ParkedKey
    from penstock.processing.checkpoints.database import ParkedAt

DETAIL_CHARS: Final = 100
"""Characters of a reason that a table shows."""
EVENT_CHARS: Final = 120
"""Characters of an event that a table shows."""
SUGGESTED_MAX: Final = 5
SHOP: Final = "--database sqlite:///shop.db"
WhichArgument = Annotated[
    str, typer.Argument(metavar="WHICH", help="The id, as `list` shows it; of a processor the stream's name, too.")
]

app = group(
    "Look at events that wait, since one could not be processed: keys of subscriptions, streams of processors. Retry or"
    " skip them.",
    no_args_is_help=True,
)


class ParkedRow(NamedTuple):
    """A parked stream of a processor, wherever that keeps it."""

    id: str | None
    """None: it is kept in a database of the user's."""
    stream: str
    tranche: str
    first: int
    """Index of the event that could not be handled."""
    next: int
    events: int
    attempts: int
    tag: str
    detail: str
    since: int | str
    parked_at: str
    request: str | None


@app.command(
    "list", epilog=examples("penstock groups parked list mailer", f"penstock groups parked list greeter {SHOP}")
)
def list_parked(
    name: NameArgument,
    *,
    database: DatabaseOption = None,
    table: TableOption = TABLE,
    url: HubOption = URL,
    output: OutputOption = "text",
) -> None:
    """List what a consumer group has parked, the oldest first: where each fails, and why.

    `index` is that of the event which could not be handled; those behind it wait with it. A stream that was retried in
    vain keeps the time at which it was first parked; its attempts are added up. For people, long reasons are
    cut; --output json has them whole.
    """
    from penstock.cli.event_line import bare, cut
    from penstock.cli.output import or_dash, print_json, print_table, say

    if database is not None:
        with open_own(database, table) as own:
            found = _spans_of_own(own.parked(name))
    else:
        with open_hub(url) as client:
            name, kind = _kind_of(client, name)
            if kind == SUBSCRIPTION:
                _list_keys(client.subscription(name).parked(), output)
                return
            found = _spans_of_hub(client.parked_streams(name))
    if output == "json":
        print_json(list(map(_as_object, found)))
    elif found:
        columns = ("id", "stream", "tranche", "index", "events", "attempts", "parked at", "wanted", "why")
        rows = [
            [or_dash(each.id), bare(each.stream), bare(each.tranche), each.first, each.events, each.attempts,
             each.parked_at, or_dash(each.request), cut(f"{each.tag}: {each.detail}", DETAIL_CHARS)]
            for each in found
        ]  # fmt: skip
        print_table(columns, rows)
    else:
        say(f"{name} has parked nothing.")


@app.command(
    epilog=examples(
        "penstock groups parked show mailer 7", f"penstock groups parked show greeter order.placed-7 {SHOP} -o json"
    )
)
def show(
    name: NameArgument,
    which: WhichArgument,
    *,
    limit: Annotated[
        int, typer.Option(min=1, max=100, metavar="N", help="Of a subscription: not more than its first N events.")
    ] = 10,
    database: DatabaseOption = None,
    table: TableOption = TABLE,
    url: HubOption = URL,
    output: OutputOption = "text",
) -> None:
    """Show what is parked, and why. Of a subscription, its first events: the one that failed, and those behind it.

    For people, long events are cut; --output json has them whole.
    """
    from penstock.cli.event_line import bare
    from penstock.cli.output import plural, print_json, say

    if database is not None:
        with open_own(database, table) as own:
            found = _meant(name, which, _spans_of_own(own.parked(name)))
    else:
        with open_hub(url) as client:
            name, kind = _kind_of(client, name)
            if kind == SUBSCRIPTION:
                _show_key(client, name, which, limit, output)
                return
            found = _meant(name, which, _spans_of_hub(client.parked_streams(name)))
    if output == "json":
        print_json(list(map(_as_object, found)))
        return
    for each in found:
        wanted = "" if each.request is None else f", {each.request} wanted"
        say(f"parked: {bare(each.stream)} in {bare(each.tranche)}, since {each.parked_at}{wanted}")
        first = f"of which the first, {each.first}, was tried {plural(each.attempts, 'time')}"
        say(f"{plural(each.events, 'event')}, {first}")
        say(f"{each.tag}: {each.detail}")


@app.command(
    epilog=examples(
        "penstock groups parked retry mailer 7",
        "penstock groups parked retry mailer --all",
        f"penstock groups parked retry greeter order.placed-7 {SHOP}",
    )
)
def retry(
    name: NameArgument,
    which: Annotated[
        str | None,
        typer.Argument(metavar="WHICH", help="The id, as `list` shows it; of a processor the stream's name, too."),
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All that are parked.")] = False,
    database: DatabaseOption = None,
    table: TableOption = TABLE,
    url: HubOption = URL,
    output: OutputOption = "text",
) -> None:
    """Retry parked events in their order, beginning with the one that failed.

    Fix the cause first. The events of a subscription are sent to the consumer that has the partition. A running
    processor retries within a second, another one when it starts. Events that fail again are parked again.
    """
    from penstock.cli.output import plural, print_json, say

    if (which is None) != everything:
        raise typer.BadParameter("say which, by its id or name, or by --all", param_hint="WHICH")
    what = "stream"
    if database is not None:
        with open_own(database, table) as own:
            spans = _spans_of_own(own.parked(name))
            streams = list(dict.fromkeys(each.stream for each in (_meant(name, which, spans) if which else spans)))
            for each in streams:
                own.ask(name, each, "retry")
            count = len(streams)
    else:
        with open_hub(url) as client:
            name, kind = _kind_of(client, name)
            if kind == SUBSCRIPTION:
                count, what = client.subscription(name).retry_parked(which), "key"
            elif which is None:
                count = client.retry_parked_stream(name)
            else:
                [first, *_] = _meant(name, which, _spans_of_hub(client.parked_streams(name)))
                count = client.retry_parked_stream(name, first.id)
    if output == "json":
        print_json({"name": name, "retried": count})
    else:
        say(f"{plural(count, what)} of {name} will be tried again")


@app.command(
    epilog=examples(
        "penstock groups parked skip mailer 7 --reason 'a test order'",
        f"penstock groups parked skip greeter order.placed-7 --reason 'a test order' {SHOP}",
    )
)
def skip(
    name: NameArgument,
    which: WhichArgument,
    *,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why, which has to be said: `penstock groups history` shows it.")
    ] = None,
    database: DatabaseOption = None,
    table: TableOption = TABLE,
    url: HubOption = URL,
    output: OutputOption = "text",
) -> None:
    """Pass over what waits: it stays in the feed, and only what comes from then on is handled.

    Parked events of a subscription that lie ahead of events that are not committed yet are sent once these are.
    """
    from penstock.cli.event_line import bare
    from penstock.cli.output import plural, print_json, say

    if reason is None or not reason.strip():
        detail = "say why these events are not wanted, such as --reason 'a test order'; it is kept"
        raise typer.BadParameter(detail, param_hint="--reason")
    if database is not None:
        with open_own(database, table) as own:
            found = _meant(name, which, _spans_of_own(own.parked(name)))
            own.ask(name, found[0].stream, "skip", reason)
    else:
        with open_hub(url) as client:
            name, kind = _kind_of(client, name)
            if kind == SUBSCRIPTION:
                _skip_key(client, name, which, reason, output)
                return
            found = _meant(name, which, _spans_of_hub(client.parked_streams(name)))
            client.skip_parked_stream(name, str(found[0].id), reason)
    events = sum(each.events for each in found)
    if output == "json":
        print_json({"name": name, "stream": found[0].stream, "skipped_events": events})
    else:
        say(f"{plural(events, 'event')} of {bare(found[0].stream)} will be passed over")


def _kind_of(client: "Client", name: str) -> tuple[str, str]:
    """Return the whole name of a group, and its kind.

    Raises:
        CommandFailure: it stores its positions and its parked streams elsewhere.
    """
    from penstock.cli.failures import CommandFailure
    from penstock.core.groups.groups import REPORTED

    name, known = ask_about_group(client, name, client.consumer_group)
    if known.kind == REPORTED:
        detail = f"{name} keeps what it has parked in {known.kept_at}"
        raise CommandFailure(detail, "Name that database with --database URL.")
    return name, known.kind


def _as_object(span: ParkedRow) -> dict[str, object]:
    """Return a parked stream for programs, which know `first` as `index`, as the hub does."""
    found = span._asdict()
    return {"index" if name == "first" else name: value for name, value in found.items()}


def _spans_of_own(found: "Sequence[ParkedAt]") -> list[ParkedRow]:
    from penstock.cli.groups.own import time_text

    return [
        ParkedRow(
            None, each.parked.stream, each.parked.tranche, each.parked.index, each.parked.next, each.parked.events,
            each.parked.attempts, each.parked.tag, each.parked.detail, each.parked.since, time_text(each.at),
            each.request,
        )
        for each in found
    ]  # fmt: skip


def _spans_of_hub(found: "Sequence[GroupParkedStream]") -> list[ParkedRow]:
    from penstock.processing.checkpoints.checkpoint import decode_name
    from penstock.processing.sources.feed_position import encode_tranche

    return [
        ParkedRow(
            each.id, "?" if each.stream is None else decode_name(each.stream),
            encode_tranche(each.event_type, each.partition), each.index, each.next, each.events, each.attempts,
            each.tag, each.detail or "", each.since, each.parked_at, each.request,
        )
        for each in found
    ]  # fmt: skip


def _meant(name: str, which: str, known: Sequence[ParkedRow]) -> list[ParkedRow]:
    """Return what is parked of the stream of that name or id.

    Raises:
        ParkedNotFound: nothing is; names the streams that may be meant.
    """
    from penstock.errors import ParkedNotFound

    streams = [each.stream for each in known if each.id == which] or [which]
    if found := [each for each in known if each.stream == streams[0]]:
        return found
    error = ParkedNotFound.of("parked-stream-not-found", processor=name, stream=which)
    if close := meant_by(which, [each.stream for each in known]):
        asks = f"{error.detail}; did you mean {' or '.join(map(repr, close))}?"
        raise ParkedNotFound.of("parked-stream-not-found", asks, **error.fields)
    raise error


def meant_by(given: str, known: Sequence[str]) -> list[str]:
    """Return the few names among *known* that have in them what was *given*.

    >>> meant_by("ADA", ["order.placed-Ada", "order.placed-Bob"])
    ['order.placed-Ada']
    """
    return [name for name in dict.fromkeys(known) if given.lower() in name.lower()][:SUGGESTED_MAX]


def _list_keys(parked: "Sequence[ParkedKey]", output: str) -> None:
    from penstock.cli.output import print_json, print_table, say

    if output == "json":
        print_json(parked)
    elif parked:
        columns = ("id", "event type", "partition", "key", "events", "attempts", "parked at", "state")
        rows = [
            [each.id, each.event_type, each.partition, _key_text(each), each.events, each.attempts, each.parked_at,
             each.state]
            for each in parked
        ]  # fmt: skip
        print_table(columns, rows)
    else:
        say("No key is parked.")


def _show_key(client: "Client", name: str, which: str, limit: int, output: str) -> None:
    import msgspec

    from penstock.cli.event_line import cut
    from penstock.cli.output import plural, print_json, print_table, say

    parked = client.subscription(name).parked_key(which, limit=limit)
    if output == "json":
        print_json(parked)
        return
    where = f"partition {parked.partition} of {parked.event_type}"
    say(f"{parked.state}: {_describe_key(parked)} in {where}, since {parked.parked_at}")
    say(f"{plural(parked.events, 'event')}, of which the first was sent {plural(parked.attempts, 'time')}")
    rows = [[each.offset, cut(msgspec.json.encode(each.event).decode(), EVENT_CHARS)] for each in parked.items]
    print_table(("offset", "event"), rows)


def _skip_key(client: "Client", name: str, which: str, reason: str, output: str) -> None:
    from penstock.cli.output import plural, print_json, say

    parked = client.subscription(name).parked_key(which, limit=1)
    client.subscription(name).skip_parked(which, reason)
    ahead = sum(each.events for each in client.subscription(name).parked() if each.id == parked.id)
    skipped = max(0, parked.events - ahead)
    if output == "json":
        print_json({"name": name, "skipped_events": skipped, "events_ahead": ahead})
        return
    rest = f"; {plural(ahead, 'event')} ahead of the position will be sent" if ahead else ""
    say(f"skipped {plural(skipped, 'event')} of {_describe_key(parked)}{rest}")


def _describe_key(parked: "ParkedKey") -> str:
    return "an event without a key" if parked.key is None else f"key {_key_text(parked)}"


def _key_text(parked: "ParkedKey") -> str:
    from penstock.cli.event_line import bare

    return "-" if parked.key is None else bare(parked.key)
