"""`penstock spark forward`: feeds to Kafka, to another hub, to a Nakadi."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import URL, OutputOption, UrlOption
from penstock.cli.spark.settings import (
    MASTER,
    CheckpointOption,
    ConfOption,
    EventTypesArgument,
    FollowOption,
    GroupOption,
    LayoutOption,
    LogOption,
    MasterOption,
    SourceOption,
    StartOption,
    absolute,
    only,
    pairs,
)

if TYPE_CHECKING:
    from penstock.spark.pipelines.forwarding import RecordTarget

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
    from penstock.cli.spark.following import follow as following
    from penstock.cli.spark.following import lag_of
    from penstock.cli.spark.running import check_event_types, check_source, kafka_settings, running
    from penstock.spark import pipelines
    from penstock.spark.pipelines.forwarding import check_forwarding

    where = only({"--kafka": kafka, "--hub": hub, "--nakadi": nakadi})
    target_options = pairs(target_option, "--target-option")
    target = _target(*where, name, event_types, target_options)
    source = {
        "url": url, "eventType": ",".join(event_types), "startingOffsets": start,
        "consumerGroup": consumer_group or f"forward:{Path(checkpoint).name}",
        **find_spark_options(), **pairs(option, "--option"),
    }  # fmt: skip
    check_source(source)
    check_forwarding(target, source)
    if hub is not None:
        check_event_types(hub, [name or event_types[0]], target_options)
    trigger: dict[str, Any] = {"processingTime": "1 second"} if follow else {"availableNow": True}
    defaults = kafka_settings(conf) if kafka else {}
    with (
        running("forward", master=master, conf=conf, log=log, defaults=defaults) as spark,
        lag_of(source["consumerGroup"], url) as lag,
    ):
        query = pipelines.forward(
            spark, target, checkpoint=absolute(checkpoint), layout=layout, index=index, trigger=trigger, **source
        )
        following(query, lag, what="forwarding", did="forwarded", ends=not follow, as_json=output == "json")


def _target(kind: str, place: str, name: str | None, event_types: list[str], options: dict[str, str]) -> "RecordTarget":
    from penstock.spark.pipelines import HubFeed, Kafka, Nakadi

    if kind == "--kafka":
        return Kafka(place, name, options)
    if name is None and len(event_types) > 1:
        raise typer.BadParameter("several feeds go to one event type only with --as", param_hint=kind)
    to = name or event_types[0]
    return HubFeed(place, to, options) if kind == "--hub" else Nakadi(place, to, options)
