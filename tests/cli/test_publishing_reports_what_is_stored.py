"""`penstock publish`, from files and pipes."""

import json

from tests.cli.command import Command


def lines(*events: object) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


def tail(at_hub: Command, event_type: str, *options: object) -> list[dict[str, object]]:
    read = at_hub("tail", event_type, "--from", "first", "--no-follow", "--headers", "-o", "json", *options)
    assert read.status == 0, read.err
    events: list[dict[str, object]] = read.lines
    return events


def test_a_file_is_published_in_its_order(at_hub: Command, orders: str) -> None:
    given = [{"order_id": "a", "n": n} for n in range(2_500)]
    (at_hub.directory / "orders.ndjson").write_text(lines(*given))

    published = at_hub("publish", orders, "orders.ndjson", "--batch", 400)

    assert published.out.startswith(f"published 2 500 events to {orders} in ")
    assert [line["data"] for line in tail(at_hub, orders)] == given


def test_programs_learn_count_and_cursors(at_hub: Command, orders: str) -> None:
    answer = at_hub("publish", orders, "-o", "json", given=lines({"order_id": "a"}, {"order_id": "a"})).json

    assert (answer["event_type"], answer["count"]) == (orders, 2)
    assert len(answer["cursors"]) == 1
    assert answer["bytes"] > 0


def test_nothing_to_publish_is_no_failure(at_hub: Command, orders: str) -> None:
    assert at_hub("publish", orders, "-o", "json", given="\n\n").json["count"] == 0


def test_feed_lines_keep_key_and_headers(at_hub: Command, orders: str) -> None:
    given = lines({"data": {"n": 1}, "key": "k", "headers": {"ce_type": "kind"}}, {"partition": 0, "cursor": "x"})

    assert at_hub("publish", orders, given=given).status == 0

    (line,) = tail(at_hub, orders)
    assert line["data"] == {"n": 1}
    assert line["headers"]["ce_partitionkey"] == "k"  # type: ignore[index]
    assert line["headers"]["ce_type"] == "kind"  # type: ignore[index]


def test_what_tail_writes_publish_reads(at_hub: Command, orders: str) -> None:
    at_hub("event-type", "create", f"{orders}-copy", "--partitions", 2, "--partition-key-field", "other")
    at_hub("publish", orders, given=lines({"order_id": "a"}, {"order_id": "b"}))
    copied = at_hub("tail", orders, "--from", "first", "--no-follow", "--headers", "-o", "json").out

    assert at_hub("publish", f"{orders}-copy", given=copied).status == 0

    assert sorted(str(line["data"]) for line in tail(at_hub, f"{orders}-copy", "--key", "a")) == ["{'order_id': 'a'}"]


def test_a_field_can_be_the_key(at_hub: Command, orders: str) -> None:
    given = lines({"order_id": "a", "customer": {"id": 7}})

    assert at_hub("publish", orders, "--key-field", "customer.id", given=given).status == 0
    assert len(tail(at_hub, orders, "--key", "7")) == 1

    missing = at_hub("publish", orders, "--key-field", "customer.id", given=lines({"order_id": "a"}))
    assert missing.status == 1
    assert "line 1 of standard input: it has no field 'customer.id'" in missing.err


def test_a_bad_line_is_named_with_what_is_stored_before_it(at_hub: Command, orders: str) -> None:
    good = [{"order_id": "a", "n": n} for n in range(5)]
    (at_hub.directory / "orders.ndjson").write_text("\n" + lines(*good) + "\n" + "{bad\n" + lines(*good))

    failed = at_hub("publish", orders, "orders.ndjson", "--batch", 2)

    assert failed.status == 1
    first, second = failed.err.splitlines()
    assert first.startswith("penstock: line 8 of orders.ndjson: not valid JSON")
    assert second == "  4 events are stored; go on from line 6."
    assert [line["data"] for line in tail(at_hub, orders)] == good[:4]


def test_what_only_the_hub_can_refuse_is_named_by_its_line_too(at_hub: Command, orders: str) -> None:
    given = "\n" + lines({"order_id": "a"}, {"order_id": "b"}, {"no_order": 1})

    failed = at_hub("publish", orders, "--batch", 2, given=given)

    assert failed.status == 1
    assert failed.err.splitlines()[0].startswith("penstock: line 4 of standard input: partition key field 'order_id'")
    assert failed.err.splitlines()[1] == "  2 events are stored; go on from line 4."


def test_an_event_that_is_too_large_is_named(at_hub: Command, orders: str) -> None:
    failed = at_hub("publish", orders, given=lines({"order_id": "a", "fill": "x" * 1_000_000}))

    assert failed.status == 1
    assert "line 1 of standard input" in failed.err
    assert "nothing was published" in failed.err


def test_an_event_type_that_is_not_there_is_told_at_once(at_hub: Command, penstock: Command) -> None:
    assert "no event type 'nope'" in at_hub("publish", "nope", given="{}").err
    assert at_hub("publish", "nope", "missing.ndjson").status == 2
    assert "penstock serve" in penstock("publish", "x", "--url", "http://127.0.0.1:9", given="{}").err


def test_business_events_get_what_they_lack(at_hub: Command, orders: str) -> None:
    name = f"{orders}-business"
    at_hub("event-type", "create", name, "--category", "business")

    assert at_hub("publish", name, given='{"n":1}').status == 0

    (line,) = tail(at_hub, name)
    assert {"eid", "occurred_at"} <= line["data"]["metadata"].keys()  # type: ignore[index]
