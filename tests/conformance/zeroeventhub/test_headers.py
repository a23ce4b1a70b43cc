"""ZeroEventHub v1, headers: none by default, those that are named, or all."""

from typing import Any

from tests.served import Served, create

EID = "6f1b2f60-0000-4000-8000-000000000001"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
METADATA = {"eid": EID, "occurred_at": "2026-01-02T03:04:05.678Z", "span_ctx": {"traceparent": TRACE}}


def headers(feed: Served, **arguments: Any) -> list[Any]:
    return [line.get("headers") for line in feed.read(**arguments).lines if "data" in line]


def test_headers_are_sent_as_named(feed4: Served) -> None:
    mine = {"a": "1", "b": "2", "c": 'é\n"\\'}
    feed4.publish_lines(
        [{"data": {"id": 1}, "headers": mine, "key": "K", "partition": 0}, {"data": {"id": 2}, "partition": 0}]
    )
    derived = {"ce_type": feed4.name, "ce_source": f"/event-types/{feed4.name}"}
    for named, wanted in (
        ("", [None, None]),
        ("a,c", [{"a": "1", "c": mine["c"]}, None]),
        (" b , missing ", [{"b": "2"}, None]),
        ("_all", [derived | {"ce_partitionkey": "K"} | mine, derived]),
    ):
        assert headers(feed4, headers=named) == wanted
    assert headers(feed4) == [None, None]
    answer = feed4.http.get(f"{feed4.path}?n=4&cursor0=_first&headers=%FF,%00")
    assert answer.status_code == 200
    assert "headers" not in answer.text


def test_derived_headers_are_those_of_the_metadata_unless_the_event_has_its_own(feed4: Served) -> None:
    feed = create(feed4.http, category="business")
    own = {"ce_type": "own", "ce_id": "own id", "ce_source": "here", "ce_time": "yesterday", "ce_partitionkey": "k"}
    feed.publish({"metadata": METADATA})
    feed.publish({"metadata": METADATA}, headers=own)
    derived, overridden = headers(feed, headers="_all")
    wanted = {"ce_id": EID, "ce_time": METADATA["occurred_at"], "ce_traceparent": TRACE, "ce_type": feed.name}
    assert {name: derived[name] for name in wanted} == wanted
    assert overridden == own | {"ce_traceparent": TRACE}
    assert headers(feed, headers="ce_id") == [{"ce_id": EID}, {"ce_id": "own id"}]


def test_type_header_of_a_data_change_is_its_data_type(feed4: Served) -> None:
    feed = create(feed4.http, category="data")
    feed.publish({"metadata": METADATA, "data_type": "shop.order", "data_op": "C", "data": {}})
    assert headers(feed, headers="ce_type") == [{"ce_type": "shop.order"}]


def test_headers_are_the_same_at_every_n(feed4: Served) -> None:
    feed4.publish_lines({"data": {"id": i}, "key": str(i), "partition": i % 4} for i in range(12))
    for n in (1, 2, 4, 8):
        lines = [line for line in feed4.read(n, headers="_all").lines if "data" in line]
        keys = {line["data"]["id"]: line["headers"]["ce_partitionkey"] for line in lines}
        assert keys == {i: str(i) for i in range(12)}
