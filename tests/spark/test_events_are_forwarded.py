"""Feeds go elsewhere byte for byte, and every record says where it is from."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.client import Client
from penstock.core.event import NewEvent
from penstock.errors import BadParameter
from penstock.spark.pipelines import Feed, Files, Nakadi, forward, import_
from penstock.testing.live_hub import LiveHub, live_hub

EVENTS = [b'{"n":  %d, "at": 1.50}' % n for n in range(60)]


@pytest.fixture
def source(client: Client, hub: LiveHub, event_type: str) -> dict[str, str]:
    """A feed whose events have keys and headers; its bytes are not as anybody would write them anew."""
    name = f"{event_type}-keyed"
    client.create_event_type(name, partition_count=3, partition_strategy="hash", partition_key_fields=["n"])
    client.publish(
        name, (NewEvent(event, key=f"k{n % 5}", headers={"trace": f"t{n}"}) for n, event in enumerate(EVENTS))
    )
    return {"url": hub.url, "eventType": name}


@pytest.fixture
def there(client: Client, hub: LiveHub, event_type: str) -> Feed:
    """A feed for what is forwarded."""
    client.create_event_type(
        f"{event_type}.there", partition_count=2, partition_strategy="hash", partition_key_fields=["n"]
    )
    return Feed(hub.url, f"{event_type}.there")


@pytest.fixture
def chosen(client: Client, hub: LiveHub, event_type: str) -> Feed:
    """A feed whose partitions are chosen by those who publish."""
    client.create_event_type(f"{event_type}.chosen", partition_count=2, partition_strategy="user_defined")
    return Feed(hub.url, f"{event_type}.chosen")


def ended(query: Any) -> None:
    try:
        assert query.awaitTermination(300), "it did not end"
    finally:
        query.stop()


Forwarding = Callable[..., None]


@pytest.fixture
def forwarding(spark: SparkSession, source: dict[str, str], tmp_path: Path) -> Forwarding:
    """Forwards what there is, from one checkpoint."""

    def forwarded(to: Any, **more: Any) -> None:
        ended(forward(spark, to, checkpoint=str(tmp_path / "checkpoint"), **(source | more)))

    return forwarded


@pytest.fixture
def returned(spark: SparkSession, client: Client, there: Feed, tmp_path: Path) -> Callable[[list[str]], Feed]:
    """Takes lines of spans into a feed of their own."""

    def returning(lines: list[str]) -> Feed:
        back = Feed(there.url, f"{there.event_type}.back")
        client.create_event_type(back.event_type, partition_count=3)
        (tmp_path / "lines").mkdir()
        (tmp_path / "lines" / "spans.json").write_text("\n".join(lines) + "\n\n")
        files = Files(str(tmp_path / "lines"))
        ended(import_(spark, files, back, checkpoint=str(tmp_path / "back"), layout="stream-span"))
        return back

    return returning


Read = Callable[[str, str], list[Any]]


@pytest.fixture
def read(spark: SparkSession) -> Read:
    def rows(url: str, event_type: str) -> list[Any]:
        options = {"url": url, "eventType": event_type, "includeHeaders": "true"}
        return spark.read.format("penstock").options(**options).load().orderBy("partition", "offset").collect()

    return rows


def test_another_hub_has_each_event_once_with_key_headers_and_origin(
    forwarding: Forwarding, read: Read, source: dict[str, str], there: Feed
) -> None:
    forwarding(there)
    forwarding(there)

    here = {row.data: row for row in read(source["url"], source["eventType"])}
    found = read(there.url, there.event_type)
    assert sorted(row.data.encode() for row in found) == sorted(EVENTS)
    for row in found:
        was = here[row.data]
        assert (row.key, row.headers["trace"]) == (was.key, was.headers["trace"])
        assert [row.headers[f"penstock-{name}"] for name in ("feed", "partition", "offset")] == [
            source["eventType"], str(was.partition), str(was.offset),
        ]  # fmt: skip
    for key in {row.key for row in found}:
        order = [json.loads(row.data)["n"] for row in found if row.key == key]
        assert order == sorted(order), "those of a key are in their order"


@pytest.mark.exhaustive
def test_the_id_of_an_event_is_part_of_its_origin_and_an_older_origin_gives_way(
    forwarding: Forwarding, read: Read, client: Client, event_type: str, there: Feed
) -> None:
    headers = {"ce_id": "105a76d8", "penstock-feed": "older", "penstock-offset": "77"}
    client.publish(event_type, [NewEvent(b"{}", key="k", partition=0, headers=headers)])

    forwarding(there, eventType=event_type)

    [row] = read(there.url, there.event_type)
    assert row.headers["penstock-id"] == "105a76d8"
    assert (row.headers["penstock-feed"], row.headers["penstock-offset"]) == (event_type, "0")


@pytest.mark.exhaustive
def test_the_partition_stays_where_producers_choose_it(
    forwarding: Forwarding, read: Read, chosen: Feed, event_type: str, publish: Any
) -> None:
    publish(range(20))

    forwarding(chosen, eventType=event_type)

    found = read(chosen.url, chosen.event_type)
    assert {(row.partition, json.loads(row.data)["n"] % 2) for row in found} == {(0, 0), (1, 1)}


def test_spans_come_back_as_the_events_that_they_were_made_of(
    forwarding: Forwarding, read: Read, source: dict[str, str], there: Feed, returned: Callable[[list[str]], Feed]
) -> None:
    forwarding(there, layout="stream-span")
    spans = [row.data for row in read(there.url, there.event_type)]
    assert {json.loads(span)["s"] for span in spans} == {f"{source['eventType']}-k{n}" for n in range(5)}

    back = returned(spans)
    found = read(back.url, back.event_type)
    assert sorted(row.data.encode() for row in found) == sorted(EVENTS)
    assert {row.headers["trace"] for row in found} == {f"t{n}" for n in range(60)}
    assert {row.headers["file-name"] for row in found} == {"spans.json"}


def test_a_summary_has_the_newest_of_each_stream(forwarding: Forwarding, read: Read, there: Feed) -> None:
    forwarding(there, layout="summary", index="n")

    found = {summary["s"]: summary for summary in (json.loads(row.data) for row in read(there.url, there.event_type))}
    assert sorted(summary["i"] for summary in found.values()) == [55, 56, 57, 58, 59]
    assert all(summary["u"][0]["d"]["n"] == summary["i"] for summary in found.values())


@pytest.fixture
def nakadi(tmp_path: Path) -> Iterator[LiveHub]:
    """A hub that keeps to Nakadi's limits and problems, as a stranger to the other."""
    with live_hub(f"sqlite:///{tmp_path}/nakadi.db", options=["--nakadi-strict"]) as running:
        yield running


def test_a_nakadi_has_every_event_byte_for_byte(forwarding: Forwarding, read: Read, nakadi: LiveHub) -> None:
    with Client(nakadi.url) as client:
        client.create_event_type("orders", partition_count=2)

    forwarding(Nakadi(nakadi.url, "orders"))

    assert sorted(row.data.encode() for row in read(nakadi.url, "orders")) == sorted(EVENTS)


def test_what_a_nakadi_refuses_is_told_by_its_place(forwarding: Forwarding, nakadi: LiveHub) -> None:
    with Client(nakadi.url) as client:
        client.create_event_type("orders", schema={"properties": {"n": {"type": "integer", "maximum": 50}}})

    with pytest.raises(Exception, match=r"event \d+ of \d+ is refused: .*#/n"):
        forwarding(Nakadi(nakadi.url, "orders"))


def test_a_feed_is_not_forwarded_to_itself(forwarding: Forwarding, source: dict[str, str]) -> None:
    with pytest.raises(BadParameter, match="another feed than the one that is read"):
        forwarding(Feed(f"{source['url']}/", source["eventType"]))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"layout": "avro"}, "option layout is 'avro'; allowed: raw, stream-span, summary"),
        ({"index": "n"}, "option index is 'n'; allowed: with layout stream-span or summary"),
        ({"payload": "typed"}, "option payload is 'typed'; allowed: json"),
        ({"splitpartitions": "true"}, "option splitPartitions is 'true'; allowed: false"),
    ],
)
def test_wrong_options_are_told_before_anything_runs(
    forwarding: Forwarding, there: Feed, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadParameter, match=said):
        forwarding(there, **given)
