"""ZeroEventHub v1, headers: none unless asked for, those that are named, or all."""

from typing import Any

import pytest

from tests.served import Served, create

EID = "6f1b2f60-0000-4000-8000-000000000001"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
METADATA = {"eid": EID, "occurred_at": "2026-01-02T03:04:05.678Z", "span_ctx": {"traceparent": TRACE}}


def headers(feed: Served, **arguments: Any) -> list[Any]:
    return [line.get("headers") for line in feed.read(**arguments).lines if "data" in line]


def test_headers_are_left_out_unless_asked_for(feed4: Served) -> None:
    feed4.publish_lines([{"data": {"id": 1}, "headers": {"a": "1"}, "partition": 0}])
    assert headers(feed4) == [None]
    assert headers(feed4, headers="") == [None]


def test_named_headers_are_shown_and_no_others(feed4: Served) -> None:
    feed4.publish_lines([{"data": {"id": 1}, "headers": {"a": "1", "b": "2", "c": "3"}, "partition": 0}])
    assert headers(feed4, headers="a,c") == [{"a": "1", "c": "3"}]
    assert headers(feed4, headers=" b , missing ") == [{"b": "2"}]


def test_an_event_without_the_wanted_header_has_none(feed4: Served) -> None:
    feed4.publish_lines(
        [{"data": {"id": 1}, "headers": {"a": "1"}, "partition": 0}, {"data": {"id": 2}, "partition": 0}]
    )
    assert headers(feed4, headers="a") == [{"a": "1"}, None]


def test_all_headers_are_the_events_own_and_the_derived_ones(feed4: Served) -> None:
    feed4.publish_lines([{"data": {"id": 1}, "key": "K", "headers": {"mine": 'é\n"\\'}, "partition": 0}])
    (found,) = headers(feed4, headers="_all")
    assert found == {
        "ce_type": feed4.name,
        "ce_source": f"/event-types/{feed4.name}",
        "ce_partitionkey": "K",
        "mine": 'é\n"\\',
    }


def test_derived_headers_say_what_the_metadata_says(feed4: Served) -> None:
    feed = create(feed4.http, category="business")
    feed.publish({"metadata": METADATA})
    (found,) = headers(feed, headers="_all")
    assert found["ce_id"] == EID
    assert found["ce_time"] == "2026-01-02T03:04:05.678Z"
    assert found["ce_traceparent"] == TRACE
    assert found["ce_type"] == feed.name
    assert headers(feed, headers="ce_id") == [{"ce_id": EID}]


def test_the_type_of_a_data_change_is_its_data_type(feed4: Served) -> None:
    feed = create(feed4.http, category="data")
    feed.publish({"metadata": METADATA, "data_type": "shop.order", "data_op": "C", "data": {}})
    assert headers(feed, headers="ce_type") == [{"ce_type": "shop.order"}]


def test_a_header_of_the_events_own_wins(feed4: Served) -> None:
    feed = create(feed4.http, category="business")
    own = {
        "ce_type": "own.type",
        "ce_id": "own id",
        "ce_source": "elsewhere",
        "ce_time": "yesterday",
        "ce_partitionkey": "own",
    }
    feed.publish({"metadata": METADATA}, headers=own)
    (found,) = headers(feed, headers="_all")
    assert found == own | {"ce_traceparent": TRACE}


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_headers_are_the_same_at_every_n(feed4: Served, n: int) -> None:
    feed4.publish_lines({"data": {"id": i}, "key": str(i), "partition": i % 4} for i in range(12))
    lines = feed4.read(n, headers="_all").lines
    assert {line["data"]["id"]: line["headers"]["ce_partitionkey"] for line in lines if "data" in line} == {
        i: str(i) for i in range(12)
    }


def test_headers_names_that_are_no_text_find_nothing(feed: Served) -> None:
    feed.publish_ids([1])
    answer = feed.http.get(f"{feed.path}?n=1&cursor0=_first&headers=%FF,%00")
    assert answer.status_code == 200
    assert "headers" not in answer.text
