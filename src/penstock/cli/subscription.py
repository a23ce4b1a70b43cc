"""`penstock subscription`: makes subscriptions, shows, watches and deletes them."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli.helping import examples, group
from penstock.cli.options import (
    START_HELP,
    START_METAVAR,
    URL,
    OutputOption,
    UrlOption,
    YesOption,
    duration_parser,
    parse_start_option,
)

if TYPE_CHECKING:
    from rich.table import Table

    from penstock.client import (
        Client,
        ConsumerGroup,
        SubscribedPartition,
        Subscription,
    )

    Ask = Callable[[], Sequence[SubscribedPartition]]

ID_CHARS: Final = 36
"""Length of an id; a text of this length is an id itself, not its beginning."""
ID_CHARS_MIN: Final = 8
"""Length of the shortest beginning of an id that a list shows."""
CANDIDATES_MAX: Final = 10
WATCH_INTERVAL: Final = 1.0
AWAY_SECONDS_MAX: Final = 5.0
"""The longest pause, beside the interval, between two attempts to reach a hub that is away."""
COLUMNS: Final = ("event type", "partition", "state", "to go", "lag", "parked", "stream")
"""Columns of a table of partitions."""

Cursors = list[dict[str, Any]]
IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The subscription's id, or a beginning of it that no other one has.")
]

app = group(
    "Create subscriptions, see who has which partition of them, watch and delete them. `penstock groups` moves them,"
    " and helps them over events that cannot be processed.",
    no_args_is_help=True,
)


@app.command(
    epilog=examples(
        "penstock subscription create order.placed --application billing",
        "penstock subscription create order.placed order.paid --application billing --from earliest --park-after 3",
        "penstock subscription create order.placed --application billing --group replay --from cursors.json",
    )
)
def create(
    event_types: Annotated[list[str], typer.Argument(metavar="EVENT_TYPE", help="What it is to read.")],
    *,
    application: Annotated[
        str, typer.Option("--application", "--owning-application", metavar="NAME", help="Whose it is.")
    ],
    group: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Tells it from others of this application and these event types."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar=f"{START_METAVAR}|FILE",
            help=f"Where to start; latest unless given. {START_HELP} FILE has cursors as JSON, one for each partition;"
            " - is stdin.",
        ),
    ] = None,
    park_after: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=10,
            metavar="N",
            help="When an event was sent so often and never committed, its key is parked, and others go on.",
        ),
    ] = None,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Create a subscription of an application to event types, or say that it is there already.

    There is one for an application, event types and a group: a service can give this command whenever it starts.
    """
    from penstock.cli.output import print_json, tell
    from penstock.core.subscriptions.definition import PARK_AFTER

    annotations = None if park_after is None else {PARK_AFTER: str(park_after)}
    wish = {} if start is None else _parse_start(start)
    with _open(url) as client:
        made, created = client.create_subscription(
            application, event_types, consumer_group=group, annotations=annotations, **wish
        )
    if output == "json":
        print_json({"created": created, "subscription": made})
    else:
        _say_outcome(made, wish, start, created=created)
    if not created and (ignored := _list_ignored(made, wish, annotations)):
        tell(f"{' and '.join(ignored)} had no effect: it is as it was made")


def _say_outcome(made: "Subscription", wish: dict[str, Any], start: str | None, *, created: bool) -> None:
    from penstock.cli.output import say

    where = f"at {start or 'latest'}"
    if "initial_cursors" in wish:
        where = "at the cursors from stdin" if start == "-" else f"at the cursors in {start}"
    elif isinstance(wish.get("start"), datetime):
        where = f"with the first event received at {wish['start'].isoformat()} or later"

    if created:
        say(f"created {made.id} ({_describe(made)}), which starts {where}")
    else:
        say(f"{made.id} ({_describe(made)}) was there already, since {made.created_at}")


def _list_ignored(made: "Subscription", wish: dict[str, Any], annotations: dict[str, str] | None) -> list[str]:
    """Return the options that differ from the existing subscription.

    The meaning of a time when the subscription was created is unknown: it counts as different.
    """
    from penstock.client.subscriptions.protocol import READ_FROM

    start = wish.get("start")
    differs = (
        isinstance(start, datetime)
        or (start is not None and READ_FROM[start] != made.read_from)
        or ("initial_cursors" in wish and _places(made.initial_cursors) != _places(wish["initial_cursors"]))
    )
    found = ["--from"] if differs else []
    if annotations is not None and not annotations.items() <= made.annotations.items():
        found.append("--park-after")
    return found


def _parse_start(text: str) -> dict[str, Any]:
    """Return the arguments of `create_subscription` for the option --from.

    Raises:
        BadParameter: it is neither a place to start nor a file of cursors.
    """
    try:
        return {"start": parse_start_option(text, "--from")}
    except typer.BadParameter as error:
        if text != "-" and not Path(text).exists():
            raise typer.BadParameter(f"{error.message}, or a file that is there", param_hint="--from") from None
    return {"initial_cursors": _read_cursors(Path(text))}


def _places(cursors: Cursors) -> set[tuple[object, object, object]]:
    return {(each.get("event_type"), each.get("partition"), each.get("offset")) for each in cursors}


def _read_cursors(file: Path) -> Cursors:
    """Return the cursors in *file*: a list of them, or the answer of a hub to a request for a subscription's cursors.

    Raises:
        BadParameter: the file cannot be read, or holds something else.
    """
    import msgspec

    try:
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        given = msgspec.json.decode(raw)
        if isinstance(given, dict) and "items" in given:
            given = given["items"]
        found = msgspec.convert(given, Cursors)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="--from") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} is no list of cursors: {error}", param_hint="--from") from error
    if not found:
        detail = f"{file} has no cursor in it: a subscription that nobody has read from yet has none"
        raise typer.BadParameter(detail, param_hint="--from")
    return found


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

    with _open(url) as client:
        subscriptions = client.subscriptions(owning_application=application, event_types=event_type or (), status=True)
        for name in () if subscriptions else event_type or ():
            client.event_type(name)  # Raises where there is none: nobody can have subscribed to it.
        groups = client.consumer_groups(kind="subscription") if subscriptions else []
    behind = {each.name: each for each in groups}
    if output == "json":
        print_json([_list_object(each, behind.get(each.id)) for each in subscriptions])
    elif subscriptions:
        columns = ("id", "application", "group", "event types", "partitions", "held by", "to go", "lag")
        ids = _shorten([each.id for each in subscriptions])
        print_table(
            columns, [[short, *_list_row(each, behind)] for short, each in zip(ids, subscriptions, strict=True)]
        )
    else:
        such = " such" if application or event_type else ""
        say(f"There are no{such} subscriptions: `penstock subscription create` makes one.")


def _list_object(subscription: "Subscription", group: "ConsumerGroup | None") -> dict[str, Any]:
    import msgspec

    standing = {"gap": group.gap, "lag_seconds": group.lag_seconds} if group else {"gap": None, "lag_seconds": None}
    return msgspec.structs.asdict(subscription) | {"partitions": _owners(subscription)} | standing


def _owners(subscription: "Subscription") -> list[dict[str, Any]]:
    """Return the owner of each partition, without the figures that only `show` asks for."""
    names = ("event_type", "partition", "state", "stream_id", "assignment_type")
    return [{name: getattr(each, name) for name in names} for each in subscription.partitions or ()]


def _list_row(subscription: "Subscription", groups: "Mapping[str, ConsumerGroup]") -> list[object]:
    from penstock.cli.event_line import bare
    from penstock.cli.output import age, or_dash, plural

    partitions, group = subscription.partitions or [], groups.get(subscription.id)
    streams = len({each.stream_id for each in partitions if each.stream_id})
    gap, lag = (None, None) if group is None else (group.gap, group.lag_seconds)
    return [
        bare(subscription.owning_application),
        bare(subscription.consumer_group),
        ", ".join(subscription.event_types),
        len(partitions),
        plural(streams, "stream") if streams else "nobody",
        or_dash(gap),
        "-" if lag is None else age(lag),
    ]


@app.command(epilog=examples("penstock subscription show 5f0c", "penstock subscription show 5f0c --output json"))
def show(subscription: IdArgument, *, url: UrlOption = URL, output: OutputOption = "text") -> None:
    """Show a subscription: what it is, which stream has what, and which keys are parked."""
    import msgspec

    from penstock.cli.event_line import bare
    from penstock.cli.output import plural, print_json, print_table, say
    from penstock.client.subscriptions.protocol import READ_FROM

    with _open(url) as client:
        meant = _find(client, subscription)
        partitions = client.subscription(meant.id).stats()
        keys = client.subscription(meant.id).parked()
    if output == "json":
        rows = [_partition_object(each) for each in partitions]
        print_json(msgspec.structs.asdict(meant) | {"partitions": rows, "parked_keys": len(keys)})
        return
    say(f"{meant.id}  {_describe(meant)}")
    starts = {word: start for start, word in READ_FROM.items()}
    say(f"created {meant.created_at}, from {starts.get(meant.read_from, meant.read_from)}")
    for name, value in sorted({**meant.labels, **meant.annotations}.items()):
        say(bare(f"{name}: {value}"))
    say(_total(partitions))
    if streams := _stream_rows(partitions):
        print_table(("stream", "partitions", "to go"), streams)
    if keys:
        say(f"{plural(len(keys), 'key')} parked: `penstock groups parked list {meant.id}`")


def _stream_rows(partitions: "Iterable[SubscribedPartition]") -> list[list[object]]:
    """Return for each stream its partitions, and the events that are to go in them."""
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

    with _open(url) as client:
        meant = _find(client, subscription)
        if not yes:
            standing = _total(client.subscription(meant.id).stats())
            confirm(f"Delete {meant.id} ({_describe(meant)}; {standing}) for ever?")
        client.subscription(meant.id).delete()
    if output == "json":
        print_json({"id": meant.id})
    else:
        say(f"deleted {meant.id} ({_describe(meant)})")


@app.command(epilog=examples("penstock subscription stats 5f0c", "penstock subscription stats 5f0c --watch"))
def stats(
    subscription: IdArgument,
    *,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again, until Ctrl-C.")] = False,
    interval: Annotated[
        float,
        typer.Option(
            parser=duration_parser(0.1, 3600),
            metavar="DURATION",
            show_default="1s",
            help="With --watch: how often, such as 5s.",
        ),
    ] = WATCH_INTERVAL,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Show who has each partition of a subscription, how many events are not committed, and how old the oldest is.

    For programs, --watch prints an object a line.
    """
    from penstock.cli.output import print_json, print_table, say

    with _open(url) as client:
        meant = _find(client, subscription)
        if watch:
            _watch(meant.id, lambda: client.subscription(meant.id).stats(), interval, as_json=output == "json")
            return
        partitions = client.subscription(meant.id).stats()
    if output == "json":
        print_json(_stats_object(meant.id, partitions))
    else:
        print_table(COLUMNS, _partition_rows(partitions))
        say(_total(partitions))


def _partition_rows(partitions: "Sequence[SubscribedPartition]") -> list[list[object]]:
    """Return the rows of a table of *partitions*."""
    from penstock.cli.output import age, or_dash

    return [
        [
            each.event_type,
            each.partition,
            f"{each.state}, asked for" if each.assignment_type == "direct" else each.state,
            or_dash(each.unconsumed_events),
            "-" if each.lag_seconds is None else age(each.lag_seconds),
            each.parked_events,
            each.stream_id or "-",
        ]
        for each in partitions
    ]


def _total(partitions: "Sequence[SubscribedPartition]") -> str:
    """Return in a sentence the number of streams, and how far the subscription is behind."""
    from penstock.cli.output import age, number, plural

    streams = len({each.stream_id for each in partitions if each.stream_id})
    free = sum(each.stream_id is None for each in partitions)
    told = [
        f"{plural(len(partitions), 'partition')}",
        plural(streams, "stream") if streams else "no stream",
    ]
    if streams and free:
        told.append(f"{free} without one")
    counts = [each.unconsumed_events for each in partitions if each.unconsumed_events is not None]
    if len(counts) < len(partitions):
        return ", ".join([*told, "not begun yet"])
    told.append(f"{plural(sum(counts), 'event')} to go")
    if sum(counts):
        told.append(f"the oldest {age(max(each.lag_seconds or 0 for each in partitions))} old")
    if parked := sum(each.parked_events for each in partitions):
        told.append(f"{number(parked)} parked")
    return ", ".join(told)


def _stats_object(id: str, partitions: "Sequence[SubscribedPartition]") -> dict[str, Any]:
    """Return the statistics as an object for programs."""
    counts = [each.unconsumed_events for each in partitions]
    begun = None not in counts
    return {
        "id": id,
        "gap": sum(each or 0 for each in counts) if begun else None,
        "lag_seconds": max((each.lag_seconds or 0 for each in partitions), default=0) if begun else None,
        "parked_events": sum(each.parked_events for each in partitions),
        "streams": len({each.stream_id for each in partitions if each.stream_id}),
        "partitions": list(map(_partition_object, partitions)),
    }


def _partition_object(partition: "SubscribedPartition") -> dict[str, Any]:
    """Return *partition* as an object for programs, with `gap` for `unconsumed_events`, as in all commands."""
    import msgspec

    shown = msgspec.structs.asdict(partition)
    return {("gap" if name == "unconsumed_events" else name): value for name, value in shown.items()}


def _watch(id: str, ask: "Ask", interval: float, *, as_json: bool) -> None:
    """Show the results of *ask*, again and again; while the hub is away, wait until it is back."""
    from penstock.cli.output import console

    try:
        if as_json or not console().is_terminal:
            for partitions in _poll(ask, interval):
                _print_stats(id, partitions, as_json=as_json)
        from rich.live import Live

        found = _poll(ask, interval)
        first, on_terminal = _draw(next(found)), sys.stderr.isatty()
        with Live(first, console=console(), auto_refresh=False, redirect_stderr=on_terminal) as live:
            for partitions in found:
                live.update(_draw(partitions), refresh=True)
    except KeyboardInterrupt:
        return  # How it is meant to end.


def _poll(ask: "Ask", interval: float) -> "Iterator[Sequence[SubscribedPartition]]":
    """Yield the results of *ask* forever. Report a transient outage once, and wait for its end.

    Raises:
        PenstockError: the first call fails, or a later one with an error that is not transient.
    """
    from penstock.cli.failures import explain_error
    from penstock.errors import PenstockError
    from penstock.wire.http import RetryBackoff, is_transient

    yield ask()
    backoff, is_away = RetryBackoff(AWAY_SECONDS_MAX), False
    while True:
        time.sleep(interval)
        try:
            found = ask()
        except PenstockError as error:
            if not is_transient(error):
                raise
            if not is_away:
                # Not by a console: it would write past the display that is on the terminal.
                sys.stderr.write(f"penstock: {explain_error(error)[0]}; trying again until the hub is back\n")
                sys.stderr.flush()
            is_away = True
            time.sleep(backoff.delay(error))
            continue
        is_away = False
        backoff.reset()
        yield found


def _print_stats(id: str, partitions: "Sequence[SubscribedPartition]", *, as_json: bool) -> None:
    from penstock.cli.output import print_json_line, print_table, say

    if as_json:
        print_json_line(_stats_object(id, partitions))
        return
    print_table(COLUMNS, _partition_rows(partitions))
    say(_total(partitions))
    sys.stdout.flush()


def _draw(partitions: "Sequence[SubscribedPartition]") -> "Table":
    from penstock.cli.output import table_of

    shown = table_of(COLUMNS, _partition_rows(partitions))
    shown.caption, shown.caption_justify = _total(partitions), "left"
    return shown


def _open(url: str) -> "Client":
    """Return a client of the hub at *url* that does not retry: a person rather tries again than waits."""
    from penstock.cli.hub import open_client

    return open_client(url, retry_timeout=0)


def _find(client: "Client", given: str) -> "Subscription":
    """Return the subscription whose id is, or begins with, *given*.

    Raises:
        BadParameter: *given* is empty, as by a script whose variable is empty.
        SubscriptionNotFound: no subscription has that id.
        CommandFailure: no id begins so, or several do; lists them.
    """
    from penstock.cli.failures import CommandFailure

    if not given:
        raise typer.BadParameter("it is empty: `penstock subscription list` has all", param_hint="ID")
    if len(given) >= ID_CHARS:
        return client.subscription(given.lower()).show()
    if meant := find_by_prefix(client, given):
        return meant
    raise CommandFailure(
        f"no subscription has an id that begins with {given!r}", "`penstock subscription list` has all."
    )


def find_by_prefix(client: "Client", given: str) -> "Subscription | None":
    """Return the subscription whose id begins with *given*; None if there is none.

    Raises:
        CommandFailure: several ids begin so; lists them.
    """
    from penstock.cli.failures import CommandFailure

    if not given or len(given) >= ID_CHARS:
        return None
    matching = [each for each in client.subscriptions() if each.id.startswith(given.lower())]
    if len(matching) < 2:
        return matching[0] if matching else None
    lines = [f"{each.id}  {_describe(each)}" for each in matching[:CANDIDATES_MAX]]
    if more := len(matching) - len(lines):
        lines.append(f"and {more} more")
    raise CommandFailure(f"{len(matching)} subscriptions have ids that begin with {given!r}", "\n".join(lines))


def _describe(subscription: "Subscription") -> str:
    """Return in words the owner, the group and the event types of a subscription."""
    from penstock.cli.event_line import bare

    owner = f"{subscription.owning_application}, {subscription.consumer_group}"
    return bare(f"{owner}: {', '.join(subscription.event_types)}")


def _shorten(ids: Sequence[str]) -> list[str]:
    """Return for each of *ids* a beginning that no other one has.

    >>> _shorten(["0a5fe317-f8", "0a5fe317-c2", "771e09aa-10"])
    ['0a5fe317-f', '0a5fe317-c', '771e09aa-1']
    """
    chars = ID_CHARS_MIN
    while chars < ID_CHARS and len({each[:chars] for each in ids}) < len(set(ids)):
        chars += 1
    return [each[:chars] for each in ids]
