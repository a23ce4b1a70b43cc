"""`penstock spark`: pipelines that are ready to run, on this machine or on a cluster."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from penstock.cli.failures import CommandFailure
from penstock.cli.helping import examples, group
from penstock.cli.options import START_HELP, START_METAVAR, URL, OutputOption, UrlOption

if TYPE_CHECKING:
    from penstock.spark.pipelines.forwarding import RecordTarget

MASTER: Final = "local[*]"
EventTypesArgument = Annotated[
    list[str], typer.Argument(metavar="EVENT_TYPE...", help="Whose feeds.", show_default=False)
]
ToOption = Annotated[
    str, typer.Option("--to", metavar="PATH", help="Where to: a directory, or any path that Spark can write to.")
]
MasterOption = Annotated[
    str,
    typer.Option(
        envvar=["SPARK_REMOTE", "SPARK_MASTER"],
        metavar="URL",
        help="Where Spark is to run: local[*], spark://…, or a server of Spark Connect, sc://….",
    ),
]
ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark's. Repeatable.")
]
LogOption = Annotated[
    Path | None,
    typer.Option("--log", metavar="FILE", help="Where Spark's own words go; else they are kept only if it fails."),
]
SourceOption = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="A further option of the source. Repeatable."),
]
StartOption = Annotated[
    str,
    typer.Option("--from", metavar=f"{START_METAVAR}|JSON", help=f"Where to start. {START_HELP} JSON has offsets."),
]
FollowOption = Annotated[bool, typer.Option("--follow", help="Go on as events come, until Ctrl-C.")]
GroupOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="How `penstock groups` calls it; by default as its lake or its checkpoint."),
]
CheckpointOption = Annotated[
    str,
    typer.Option(metavar="PATH", help="Where it keeps how far it is: it goes on from there.", show_default=False),
]
LayoutOption = Annotated[
    Literal["raw", "stream-span", "summary"],
    typer.Option(help="Whether a record is an event, or has events of a stream as Propulsion writes them."),
]
PayloadOption = Annotated[
    str, typer.Option(metavar="json|typed|both", help="Events as JSON, as columns of their schema, or both.")
]
NameOption = Annotated[
    str | None,
    typer.Option("--as", metavar="NAME", help="Of the topic or event type there; by default that of the feed."),
]
IndexOption = Annotated[
    str | None,
    typer.Option(
        metavar="MEMBER", help="Of spans and summaries: the events' index in their stream; by default the offset."
    ),
]
TargetOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="An option of where it goes: kafka.security.protocol=SSL. Repeatable."),
]

app = group(
    "Move events with Spark: feeds into a lake, into files and elsewhere, and from elsewhere into feeds.",
    "penstock spark ingest order.placed --to lake",
    "penstock spark ingest order.placed order.paid --to s3a://lake/orders --payload typed --follow",
    "penstock spark export order.placed --to orders --from 2026-11-01T00:00:00Z --until 2026-12-01T00:00:00Z",
    "penstock spark forward order.placed --kafka localhost:9092 --checkpoint orders-to-kafka --follow",
    "penstock spark import order.placed --kafka localhost:9092 --topic orders --checkpoint orders-from-kafka",
    no_args_is_help=True,
)


@app.command(
    epilog=examples("penstock spark ingest order.placed --to lake", "penstock spark ingest a b --to lake --follow")
)
def ingest(
    event_types: EventTypesArgument,
    *,
    to: ToOption,
    format: Annotated[
        Literal["parquet", "delta"], typer.Option(help="delta needs a session that has it: see --conf.")
    ] = "parquet",
    payload: PayloadOption = "json",
    start: StartOption = "earliest",
    follow: FollowOption = False,
    freshness: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="With --follow, how long few events may wait to be written: 30s, 15m, 2h."
        ),
    ] = "15m",
    consumer_group: GroupOption = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="PATH", help="Where it keeps how far it is; by default in the lake.")
    ] = None,
    option: SourceOption = None,
    master: MasterOption = MASTER,
    conf: ConfOption = None,
    log: LogOption = None,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Write feeds into a lake of files, each event once, by event type and day.

    It goes on where it was, whatever has ended it. Without --follow it ends when it has what there is now. With it,
    events wait until there are 100 000, or for --freshness, so that files are not small.
    """
    from penstock.cli.hub import find_spark_options
    from penstock.cli.spark_queries import check_source, follow_query, run_spark, watch_lag
    from penstock.spark import pipelines
    from penstock.spark.options import seconds_of

    path, kept = _absolute(to), _absolute(checkpoint) if checkpoint else None
    group = consumer_group or f"lake:{Path(path).name}"
    source = {
        "url": url, "eventType": ",".join(event_types), "payload": payload, "startingOffsets": start,
        "maxTriggerDelay": freshness, "consumerGroup": group,
        **find_spark_options(), **_parse_pairs(option, "--option"),
    }  # fmt: skip
    seconds_of("--freshness", freshness)
    check_source(source)
    trigger, config = _choose_trigger(follow=follow), _parse_pairs(conf, "--conf")
    with run_spark("ingest", master=master, config=config, log=log) as spark, watch_lag(group, url) as lag:
        query = pipelines.ingest(spark, path, format=format, checkpoint=kept, trigger=trigger, **source)
        follow_query(query, lag, what="ingesting", did=f"{to} has", ends=not follow, as_json=output == "json")


@app.command(
    epilog=examples("penstock spark export order.placed --to orders --format csv --until 2026-12-01T00:00:00Z")
)
def export(
    event_types: EventTypesArgument,
    *,
    to: ToOption,
    format: Annotated[Literal["parquet", "json", "csv", "orc"], typer.Option(help="Of the files.")] = "parquet",
    payload: PayloadOption = "json",
    start: StartOption = "earliest",
    until: Annotated[
        str, typer.Option(metavar="latest|TIME|AGO|JSON", help="Where to end, before the event that --from would name.")
    ] = "latest",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    option: SourceOption = None,
    master: MasterOption = MASTER,
    conf: ConfOption = None,
    log: LogOption = None,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Write what feeds have between two places into files, once."""
    from penstock.cli.hub import find_spark_options
    from penstock.cli.output import age, number, print_json, say
    from penstock.cli.spark_queries import check_source, run_spark, show_tasks
    from penstock.spark import pipelines

    source = {
        "url": url, "eventType": ",".join(event_types), "payload": payload, "startingOffsets": start,
        "endingOffsets": until, **find_spark_options(), **_parse_pairs(option, "--option"),
    }  # fmt: skip
    check_source(source)
    advice = "If something is there already, --overwrite replaces it."
    with run_spark("export", master=master, config=_parse_pairs(conf, "--conf"), log=log, advice=advice) as spark:
        began = time.monotonic()
        with show_tasks(spark, f"exporting to {to}"):
            events = pipelines.export(spark, _absolute(to), format=format, overwrite=overwrite, **source)
        seconds = time.monotonic() - began
    if output == "json":
        print_json({"events": events, "seconds": round(seconds, 3)})
    else:
        say(f"{to} has {number(events)} events, in {age(seconds)}")


@app.command(
    epilog=examples(
        "penstock spark forward order.placed --kafka localhost:9092 --as orders --checkpoint orders-to-kafka",
        "penstock spark forward order.placed --hub https://other.example --checkpoint orders-there --follow",
    )
)
def forward(
    event_types: EventTypesArgument,
    *,
    kafka: Annotated[str | None, typer.Option(metavar="BROKERS", help="To Kafka: HOST:PORT, or several.")] = None,
    hub: Annotated[str | None, typer.Option(metavar="URL", help="To another hub.")] = None,
    nakadi: Annotated[str | None, typer.Option(metavar="URL", help="To a Nakadi.")] = None,
    name: NameOption = None,
    checkpoint: CheckpointOption,
    layout: LayoutOption = "raw",
    index: IndexOption = None,
    start: StartOption = "earliest",
    follow: FollowOption = False,
    consumer_group: GroupOption = None,
    option: SourceOption = None,
    target_option: TargetOption = None,
    master: MasterOption = MASTER,
    conf: ConfOption = None,
    log: LogOption = None,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Send what feeds have elsewhere, byte for byte, those of a key in their order.

    Another hub has each event once. Kafka and Nakadi have it at least once: headers say which feed, partition and
    offset it is from, so that a repeat is recognised. It goes on where it was, whatever has ended it.
    """
    from penstock.cli.hub import find_spark_options
    from penstock.cli.spark_queries import (
        check_event_types,
        check_source,
        find_kafka_settings,
        follow_query,
        run_spark,
        watch_lag,
    )
    from penstock.spark import pipelines
    from penstock.spark.pipelines.forwarding import check_forwarding

    where = _choose_one({"--kafka": kafka, "--hub": hub, "--nakadi": nakadi})
    target_options = _parse_pairs(target_option, "--target-option")
    target = _make_target(*where, name, event_types, target_options)
    source = {
        "url": url, "eventType": ",".join(event_types), "startingOffsets": start,
        "consumerGroup": consumer_group or f"forward:{Path(checkpoint).name}",
        **find_spark_options(), **_parse_pairs(option, "--option"),
    }  # fmt: skip
    check_source(source)
    check_forwarding(target, source)
    if hub is not None:
        check_event_types(hub, [name or event_types[0]], target_options)
    trigger, config = _choose_trigger(follow=follow), _parse_pairs(conf, "--conf")
    defaults = find_kafka_settings(config) if kafka else {}
    with (
        run_spark("forward", master=master, config=config, log=log, defaults=defaults) as spark,
        watch_lag(source["consumerGroup"], url) as lag,
    ):
        query = pipelines.forward(
            spark, target, checkpoint=_absolute(checkpoint), layout=layout, index=index, trigger=trigger, **source
        )
        follow_query(query, lag, what="forwarding", did="forwarded", ends=not follow, as_json=output == "json")


def _make_target(
    kind: str, place: str, name: str | None, event_types: list[str], options: dict[str, str]
) -> "RecordTarget":
    from penstock.spark.pipelines import HubFeed, Kafka, Nakadi

    if kind == "--kafka":
        return Kafka(place, name, options)
    if name is None and len(event_types) > 1:
        raise typer.BadParameter("several feeds go to one event type only with --as", param_hint=kind)
    to = name or event_types[0]
    return HubFeed(place, to, options) if kind == "--hub" else Nakadi(place, to, options)


@app.command(
    "import",
    epilog=examples(
        "penstock spark import order.placed --files orders --checkpoint orders-from-files",
        "penstock spark import order.placed --kafka localhost:9092 --topic orders --checkpoint orders-from-kafka",
    ),
)
def import_(
    event_type: Annotated[str, typer.Argument(metavar="EVENT_TYPE", help="Whose feed.", show_default=False)],
    *,
    kafka: Annotated[str | None, typer.Option(metavar="BROKERS", help="From Kafka: HOST:PORT, or several.")] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of Kafka; by default that of the event type.")
    ] = None,
    files: Annotated[str | None, typer.Option(metavar="PATH", help="From files.")] = None,
    format: Annotated[
        Literal["json", "parquet", "csv", "orc"], typer.Option(help="Of the files. json has an event on each line.")
    ] = "json",
    checkpoint: CheckpointOption,
    layout: LayoutOption = "raw",
    on_invalid: Annotated[
        Literal["fail", "reject"],
        typer.Option(help="What is no valid event ends the import, or is kept among the rejected."),
    ] = "fail",
    follow: FollowOption = False,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="NAME=VALUE", help="An option of Spark's for where from. Repeatable."),
    ] = None,
    master: MasterOption = MASTER,
    conf: ConfOption = None,
    log: LogOption = None,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Publish what is in Kafka or in files, each event once, byte for byte.

    It goes on where it was, whatever has ended it: what has come since is published the next time. Headers say which
    topic, partition and offset, or which file, an event is from.
    """
    from penstock.cli.hub import find_spark_options
    from penstock.cli.spark_queries import check_event_types, find_kafka_settings, follow_query, run_spark
    from penstock.spark import pipelines
    from penstock.spark.laptop import REMOTE

    kind, place = _choose_one({"--kafka": kafka, "--files": files})
    if not master.startswith(REMOTE):
        _check_exists(files)
    given = _parse_pairs(option, "--option")
    origin = (
        pipelines.Kafka(place, topic or event_type, given)
        if kind == "--kafka"
        else pipelines.Files(_absolute(place), format, given)
    )
    credential = find_spark_options()
    to = pipelines.HubFeed(url, event_type, {"onInvalid": on_invalid, **credential})
    check_event_types(url, [event_type], credential)
    trigger, config = _choose_trigger(follow=follow), _parse_pairs(conf, "--conf")
    defaults = find_kafka_settings(config) if kafka else {}
    with run_spark("import", master=master, config=config, log=log, defaults=defaults) as spark:
        query = pipelines.import_(spark, origin, to, checkpoint=_absolute(checkpoint), layout=layout, trigger=trigger)
        follow_query(query, None, what="importing", did="published", ends=not follow, as_json=output == "json")


def _choose_trigger(*, follow: bool) -> dict[str, Any]:
    """Return the trigger of a query, in Spark's words."""
    return {"processingTime": "1 second"} if follow else {"availableNow": True}


def _parse_pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """Return NAME=VALUE pairs as a mapping.

    Raises:
        BadParameter: a text is no such pair, or gives a token, which the machine's list of processes would show.

    >>> _parse_pairs(["spark.ui.enabled=true", "a=b=c"], "--conf")
    {'spark.ui.enabled': 'true', 'a': 'b=c'}
    """
    found = {}
    for each in given or ():
        name, separator, value = each.partition("=")
        if not (name and separator):
            raise typer.BadParameter(f"{each!r} is not NAME=VALUE", param_hint=option)
        if name.strip().lower() == "token":
            advice = "a token here would show in the list of processes: use tokenFile=FILE, or --token-file for --url"
            raise typer.BadParameter(advice, param_hint=option)
        found[name.strip()] = value
    return found


def _choose_one(given: Mapping[str, str | None]) -> tuple[str, str]:
    """Return the one option that is *given*, with its value.

    Raises:
        BadParameter: none is given, or several are.

    >>> _choose_one({"--kafka": None, "--hub": "http://localhost:8080"})
    ('--hub', 'http://localhost:8080')
    """
    found = [(option, value) for option, value in given.items() if value is not None]
    if len(found) != 1:
        raise typer.BadParameter("one of them must be given, and only one", param_hint=" / ".join(given))
    return found[0]


def _check_exists(path: str | None) -> None:
    """Check that *path* exists, if it is on this machine and is no pattern, which may match something later.

    Raises:
        CommandFailure: it does not exist.
    """
    if path is not None and ":/" not in path and not set("*?[{") & set(path) and not Path(path).exists():
        raise CommandFailure(
            f"there is nothing at {path}", "--files is a file, a directory of them, or a pattern of both."
        )


def _absolute(path: str) -> str:
    """Return *path* so that it means the same to Spark's processes: absolute, if it is on this machine.

    >>> _absolute("s3a://lake/orders"), _absolute("file:/lake"), _absolute("/lake")
    ('s3a://lake/orders', 'file:/lake', '/lake')
    """
    return path if ":/" in path else str(Path(path).absolute())
