"""Rules that the options of all sources and of the sink share."""

import pickle
from collections.abc import Callable
from typing import Any, Final

import pytest

from penstock.errors import BadParameter
from penstock.spark.messagedb.options import parse_category_options
from penstock.spark.nakadi.options import parse_subscription_options
from penstock.spark.options import parse_options
from penstock.spark.sink_options import parse_sink_options
from penstock.spark.zeroeventhub.options import parse_remote_options

FEED: Final = {"url": "http://localhost:1", "eventType": "order.placed"}
LEAST: Final[dict[Callable[[dict[str, str]], Any], dict[str, str]]] = {
    parse_options: FEED,
    parse_sink_options: FEED,
    parse_category_options: {"url": "postgresql://reader@localhost:1/events", "category": "account"},
    parse_remote_options: {"url": "http://shop.example/feed?tenant=7"},
    parse_subscription_options: {"url": "http://nakadi:8080/", "subscription": "s", "landingLocation": "/landing"},
}
every_parser: Final = pytest.mark.parametrize("parse", LEAST)


@every_parser
@pytest.mark.parametrize("name", ["path", "paths", "serialization.format", "__streaming_source_name", "spark.x"])
def test_options_of_spark_itself_are_ignored(parse: Callable[..., Any], name: str) -> None:
    assert parse(LEAST[parse] | {name: "x"}) == parse(LEAST[parse])


def test_sink_ignores_checkpoint_location_and_query_name() -> None:
    assert parse_sink_options(FEED | {"checkpointLocation": "/x", "queryName": "q"}) == parse_sink_options(FEED)


@pytest.mark.parametrize(("parse", "name"), [(parse, name) for parse, least in LEAST.items() for name in least])
def test_missing_option_is_named(parse: Callable[..., Any], name: str) -> None:
    with pytest.raises(BadParameter, match=f"option {name} is missing"):
        parse({key: value for key, value in LEAST[parse].items() if key != name})


@pytest.mark.parametrize("parse", [parse for parse in LEAST if parse is not parse_category_options])
def test_url_with_a_password_is_refused_and_not_shown(parse: Callable[..., Any]) -> None:
    with pytest.raises(BadParameter, match=r"option url is '\(not shown\)'") as refused:
        parse(LEAST[parse] | {"url": "http://user:geheim@host"})

    assert "geheim" not in f"{refused.value} {refused.value.fields}"


@pytest.mark.parametrize(
    ("parse", "more"),
    [
        (parse_options, {"startingOffsets": '{"order.placed": {"0": 17}}'}),
        (parse_sink_options, {"producerGroup": "g"}),
        (parse_category_options, {"startingOffsets": '{"account": 17}'}),
        (parse_remote_options, {"startingCursors": '{"0": "a7"}'}),
        (parse_subscription_options, {"batchLimit": "50"}),
    ],
)
def test_options_survive_pickling(parse: Callable[..., Any], more: dict[str, str]) -> None:
    options = parse(LEAST[parse] | more)

    assert pickle.loads(pickle.dumps(options)) == options
