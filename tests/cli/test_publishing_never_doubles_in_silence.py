"""`penstock publish` through a connection that breaks: what is certain, what is doubtful, and how to go on."""

import json
import re

import pytest

from penstock.testing.live_hub import LiveHub
from tests.cli.breaking import breaking_at
from tests.cli.command import Command

EVENTS = [{"order_id": "a", "n": n} for n in range(10)]


@pytest.fixture
def file(at_hub: Command) -> str:
    """Ten events, one of them behind an empty line, so that lines and events are not numbered alike."""
    (at_hub.directory / "orders.ndjson").write_text("\n" + "".join(json.dumps(event) + "\n" for event in EVENTS))
    return "orders.ndjson"


def stored(at_hub: Command, event_type: str) -> list[object]:
    read = at_hub("tail", event_type, "--from", "first", "--no-follow", "-o", "json")
    return [line["data"] for line in read.lines]


@pytest.mark.parametrize("passed_on", [True, False])
def test_what_is_advised_after_a_broken_connection_leads_to_each_event_once(
    hub: LiveHub, at_hub: Command, orders: str, file: str, passed_on: bool
) -> None:
    with breaking_at(hub.port, 3, passed_on=passed_on) as broken:
        failed = at_hub("publish", orders, file, "--batch", 3, "--url", broken)

    assert failed.status == 1
    cause, certain, advice = failed.err.splitlines()
    assert cause.startswith(
        "penstock: it is not known whether this was carried out: the connection to http://127.0.0.1:"
    )
    assert certain == (
        "  6 events are stored for certain. The next 3 events (lines 8 to 10 of orders.ndjson) were sent together, and "
        "are all stored or none."
    )
    found = re.search(
        r"the event of line 10 with `penstock (.*)`: if it is there, go on with (.*), else with (.*)\.", advice
    )
    assert found, advice
    last = at_hub(*found[1].split(), "-o", "json").lines[-1]["data"]
    assert (last == EVENTS[8]) == passed_on
    going_on = found[2] if last == EVENTS[8] else found[3]

    assert at_hub("publish", orders, file, "--batch", 3, *going_on.split()).status == 0
    assert stored(at_hub, orders) == EVENTS


def test_a_single_event_in_doubt_is_one_line(hub: LiveHub, at_hub: Command, orders: str) -> None:
    with breaking_at(hub.port, 1, passed_on=True) as broken:
        failed = at_hub("publish", orders, "--url", broken, given='{"order_id":"a"}')

    assert "0 events are stored for certain. The next 1 event (line 1 of standard input)" in failed.err
    assert "go on with --from-line 2, else with --from-line 1." in failed.err
    assert len(stored(at_hub, orders)) == 1


def test_a_refused_line_names_the_option_to_go_on_with(at_hub: Command, orders: str, file: str) -> None:
    lines = (at_hub.directory / file).read_text().splitlines()
    broken = [*lines[:7], "{bad", *lines[7:]]
    (at_hub.directory / "broken.ndjson").write_text("\n".join(broken))

    failed = at_hub("publish", orders, "broken.ndjson", "--batch", 2)

    assert failed.err.splitlines()[1] == "  6 events are stored; go on with --from-line 8."
    assert at_hub("publish", orders, file, "--from-line", 8).out.startswith("published 4 events")
    assert stored(at_hub, orders) == EVENTS


def test_a_file_is_gone_on_with_in_the_form_that_its_first_line_has(at_hub: Command, orders: str) -> None:
    given = '{"data":{"order_id":"a"},"key":"k"}\n{"partition":0,"cursor":"x"}\n{"data":{"order_id":"b"}}\n'
    plain = '{"order_id":"a"}\n{"data":{"order_id":"b"}}\n'

    assert at_hub("publish", orders, "--from-line", 2, given=given).status == 0
    refused = at_hub("publish", orders, "--from-line", 2, given=plain)

    assert stored(at_hub, orders) == [{"order_id": "b"}]
    assert "line 2 of standard input: partition key field 'order_id' is missing" in refused.err
