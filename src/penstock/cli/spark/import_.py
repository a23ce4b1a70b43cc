"""`penstock spark import`: events from Kafka and from files into a feed."""

from typing import Annotated, Any, Literal

import typer

from penstock.cli.options import URL, OutputOption, UrlOption
from penstock.cli.spark.settings import (
    MASTER,
    CheckpointOption,
    ConfOption,
    FollowOption,
    LayoutOption,
    LogOption,
    MasterOption,
    absolute,
    check_there,
    only,
    pairs,
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
    from penstock.cli.spark.following import follow as following
    from penstock.cli.spark.running import check_event_types, kafka_settings, running
    from penstock.spark import pipelines
    from penstock.spark.laptop import REMOTE

    kind, place = only({"--kafka": kafka, "--files": files})
    if not master.startswith(REMOTE):
        check_there(files)
    given = pairs(option, "--option")
    origin = (
        pipelines.Kafka(place, topic or event_type, given)
        if kind == "--kafka"
        else pipelines.Files(absolute(place), format, given)
    )
    credential = find_spark_options()
    to = pipelines.HubFeed(url, event_type, {"onInvalid": on_invalid, **credential})
    check_event_types(url, [event_type], credential)
    trigger: dict[str, Any] = {"processingTime": "1 second"} if follow else {"availableNow": True}
    defaults = kafka_settings(conf) if kafka else {}
    with running("import", master=master, conf=conf, log=log, defaults=defaults) as spark:
        query = pipelines.import_(spark, origin, to, checkpoint=absolute(checkpoint), layout=layout, trigger=trigger)
        following(query, None, what="importing", did="published", ends=not follow, as_json=output == "json")
