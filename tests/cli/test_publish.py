"""`penstock publish`, from files and pipes: what is stored, what is in doubt, and from which line to go on."""

import json
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.testing.live_hub import LiveHub
from tests.cli.command import Command
from tests.faults.proxy import Fate, Line, Visit, lost, passed, unanswered
from tests.forks import Fork

EVENTS = [{"order_id": "a", "n": n} for n in range(10)]


def lines(*events: object) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


def tail(at_hub: Command, event_type: str, *options: object) -> list[dict[str, object]]:
    """Return the lines of all events."""
    read = at_hub("tail", event_type, "--from", "earliest", "--no-follow", "--headers", "-o", "json", *options)
    assert read.status == 0, read.err
    return read.lines


def stored(at_hub: Command, event_type: str, *options: object) -> list[object]:
    return [line["data"] for line in tail(at_hub, event_type, *options)]


@pytest.fixture
def file(at_hub: Command) -> str:
    """Ten events behind an empty line, so that the numbers of lines and events differ."""
    (at_hub.directory / "orders.ndjson").write_text("\n" + lines(*EVENTS))
    return "orders.ndjson"


def is_publish(visit: Visit) -> bool:
    return visit.method == "POST" and visit.path.startswith("/feeds/")


# Input and output


def test_publish_prints_count_and_cursors_as_json(at_hub: Command, orders: str) -> None:
    answer = at_hub("publish", orders, "-o", "json", stdin=lines({"order_id": "a"}, {"order_id": "a"})).json

    assert (answer["event_type"], answer["count"]) == (orders, 2)
    assert len(answer["cursors"]) == 1
    assert answer["bytes"] > 0
    assert at_hub("publish", orders, "-o", "json", stdin="\n\n").json["count"] == 0


def test_feed_lines_such_as_those_of_tail_keep_key_and_headers(at_hub: Command, orders: str) -> None:
    given = lines({"data": {"n": 1}, "key": "k", "headers": {"ce_type": "kind"}}, {"partition": 0, "cursor": "x"})

    assert at_hub("publish", orders, stdin=given).status == 0

    (line,) = tail(at_hub, orders)
    assert line["data"] == {"n": 1}
    assert line["headers"]["ce_partitionkey"] == "k"
    assert line["headers"]["ce_type"] == "kind"

    at_hub("event-type", "create", f"{orders}-copy", "--partitions", 2, "--partition-key-field", "other")
    at_hub("publish", orders, stdin=lines({"order_id": "a"}, {"order_id": "b"}))
    copied = at_hub("tail", orders, "--from", "earliest", "--no-follow", "--headers", "-o", "json").out

    assert at_hub("publish", f"{orders}-copy", stdin=copied).status == 0
    assert stored(at_hub, f"{orders}-copy", "--key", "a") == [{"order_id": "a"}]


def test_key_field_gives_the_key(at_hub: Command, orders: str) -> None:
    given = lines({"order_id": "a", "customer": {"id": 7}})

    assert at_hub("publish", orders, "--key-field", "customer.id", stdin=given).status == 0
    assert len(tail(at_hub, orders, "--key", "7")) == 1

    missing = at_hub("publish", orders, "--key-field", "customer.id", stdin=lines({"order_id": "a"}))
    assert missing.status == 1
    assert "line 1 of standard input: it has no field 'customer.id'" in missing.err


def fill(pipe: Path, *events: object) -> threading.Thread:
    """Make a named pipe and write events into it as soon as it is opened for reading."""
    os.mkfifo(pipe)
    writing = threading.Thread(target=lambda: pipe.write_text(lines(*events)))
    writing.start()
    return writing


def test_named_pipe_and_descriptor_are_read_like_a_file(at_hub: Command, orders: str) -> None:
    writing = fill(at_hub.directory / "pipe", *EVENTS[:3])
    by_name = at_hub("publish", orders, "pipe")
    writing.join()
    ours, theirs = os.pipe()
    with os.fdopen(theirs, "w") as into:
        into.write(lines(*EVENTS[3:6]))
    by_descriptor = at_hub("publish", orders, f"/dev/fd/{ours}")  # As of `<(…)` in a shell.
    os.close(ours)

    assert [(each.status, each.err) for each in (by_name, by_descriptor)] == [(0, "")] * 2
    assert stored(at_hub, orders) == EVENTS[:6]


def test_progress_on_a_terminal_has_a_total_only_for_a_file(at_hub: Command, orders: str, file: str) -> None:
    writing = fill(at_hub.directory / "pipe", *EVENTS[:3])

    of_file = at_hub.run_on_terminal("publish", orders, file)
    of_pipe = at_hub.run_on_terminal("publish", orders, "pipe")
    writing.join()

    assert "100%" in of_file
    assert "%" not in of_pipe
    assert "published 3 events" in of_pipe


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (".", "is a directory"),
        ("missing.ndjson", "there is no file missing.ndjson"),
        ("/dev/null/x", "Not a directory"),
        ("socket", "cannot be read"),
    ],
)
def test_unreadable_input_is_named_with_the_reason(at_hub: Command, orders: str, name: str, says: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(at_hub.directory / "socket"))

        refused = at_hub("publish", orders, name, COLUMNS="200")

    assert refused.status == 2
    assert says in refused.err


# Failures


def test_bad_line_is_named_with_the_line_to_go_on_from(at_hub: Command, orders: str, file: str) -> None:
    texts = (at_hub.directory / file).read_text().splitlines()
    (at_hub.directory / "broken.ndjson").write_text("\n".join([*texts[:7], "{bad", *texts[7:]]))

    failed = at_hub("publish", orders, "broken.ndjson", "--batch", 4)

    assert failed.status == 1
    first, second = failed.err.splitlines()
    assert first.startswith("penstock: line 8 of broken.ndjson: not valid JSON")
    assert second == "  4 events are stored; go on with --from-line 6."
    assert stored(at_hub, orders) == EVENTS[:4]
    assert at_hub("publish", orders, file, "--from-line", 6).out.startswith("published 6 events")
    assert stored(at_hub, orders) == EVENTS


def test_line_that_only_the_hub_can_refuse_is_named(at_hub: Command, orders: str) -> None:
    given = "\n" + lines({"order_id": "a"}, {"order_id": "b"}, {"no_order": 1})

    failed = at_hub("publish", orders, "--batch", 2, stdin=given)

    assert failed.status == 1
    assert failed.err.splitlines()[0].startswith("penstock: line 4 of standard input: partition key field 'order_id'")
    assert failed.err.splitlines()[1] == "  2 events are stored; go on with --from-line 4."


@pytest.mark.parametrize(
    ("given", "says"),
    [(b'\xef\xbb\xbf{"order_id":"a"}\n', "it begins with a UTF-8 byte order mark"), (lines({"fill": "x" * 10**6}), "")],
    ids=["byte order mark", "too large"],
)
def test_unfit_first_line_is_named_and_nothing_is_published(
    at_hub: Command, orders: str, given: str | bytes, says: str
) -> None:
    failed = at_hub("publish", orders, stdin=given)

    assert failed.status == 1
    assert failed.err.startswith(f"penstock: line 1 of standard input: {says}")
    assert failed.err.splitlines()[1] == "  Nothing was published."


def test_read_error_is_reported_with_the_number_of_stored_events(at_hub: Command, orders: str) -> None:
    failed = at_hub("publish", orders, "/proc/self/mem")

    assert failed.status == 1
    assert failed.err.splitlines() == [
        "penstock: /proc/self/mem cannot be read: Input/output error",
        "  Nothing was published.",
    ]


def test_unknown_event_type_and_unreachable_hub_are_reported(at_hub: Command, penstock: Command) -> None:
    away = penstock("publish", "x", "--url", "http://127.0.0.1:9", stdin="{}")

    assert "no event type 'nope'" in at_hub("publish", "nope", stdin="{}").err
    assert at_hub("publish", "nope", "missing.ndjson").status == 2
    assert away.err.startswith("penstock: http://127.0.0.1:9/")
    assert "Is the hub running? Start it with `penstock serve`" in away.err


# Going on from a line


def test_from_line_behind_the_last_line_publishes_nothing(at_hub: Command, orders: str) -> None:
    done = at_hub("publish", orders, "--from-line", 3, stdin=lines(*EVENTS[:2]))
    refused = at_hub("publish", orders, "--from-line", 9, stdin=lines(*EVENTS[:2]))

    assert (done.status, refused.status) == (0, 1)
    assert "there is no line 9: the last one is line 2" in refused.err
    assert stored(at_hub, orders) == []


def test_from_line_keeps_the_form_of_the_first_line(at_hub: Command, orders: str) -> None:
    feed = '{"data":{"order_id":"a"},"key":"k"}\n{"partition":0,"cursor":"x"}\n{"data":{"order_id":"b"}}\n'
    plain = '{"order_id":"a"}\n{"data":{"order_id":"b"}}\n'

    assert at_hub("publish", orders, "--from-line", 2, stdin=feed).status == 0
    refused = at_hub("publish", orders, "--from-line", 2, stdin=plain)

    assert stored(at_hub, orders) == [{"order_id": "b"}]
    assert "line 2 of standard input: partition key field 'order_id' is missing" in refused.err


@pytest.mark.parametrize("fate", [unanswered, lost])
def test_advice_after_a_broken_connection_leads_to_each_event_once(
    hub: LiveHub, at_hub: Command, orders: str, file: str, fate: Fate
) -> None:
    with Line(hub.port) as line:
        line.does(passed, passed, fate, to=is_publish)
        failed = at_hub("publish", orders, file, "--batch", 3, "--url", line.url)

    assert failed.status == 1
    cause, certain, advice = failed.err.splitlines()
    unknown = "penstock: it is unknown whether the request was carried out: the connection to http://127.0.0.1:"
    assert cause.startswith(unknown)
    assert certain == (
        "  6 events are stored for certain. The next 3 events (lines 8 to 10 of orders.ndjson) were sent together, and "
        "are all stored or none."
    )
    found = re.search(
        r"the event of line 10 with `penstock (.*)`: if it is there, go on with (.*), else with (.*)\.", advice
    )
    assert found, advice
    last = at_hub(*found[1].split(), "-o", "json").lines[-1]["data"]
    assert (last == EVENTS[8]) == (fate is unanswered)
    options = found[2] if last == EVENTS[8] else found[3]

    assert at_hub("publish", orders, file, "--batch", 3, *options.split()).status == 0
    assert stored(at_hub, orders) == EVENTS


def test_single_event_in_doubt_is_one_line(hub: LiveHub, at_hub: Command, orders: str) -> None:
    with Line(hub.port) as line:
        line.does(unanswered, to=is_publish)
        failed = at_hub("publish", orders, "--url", line.url, stdin='{"order_id":"a"}')

    assert "0 events are stored for certain. The next 1 event (line 1 of standard input)" in failed.err
    assert "go on with --from-line 2, else with --from-line 1." in failed.err
    assert len(stored(at_hub, orders)) == 1


@contextmanager
def sending_lines(at_hub: Command, event_type: str, count: int, *, until: int) -> Iterator[Fork]:
    """Publish *count* lines in batches of 10 from an input that stays open; yield once *until* events are stored."""
    with at_hub.start("publish", event_type, "--batch", 10, has_input=True) as sending:
        sending.stdin.write(lines(*({"order_id": "a", "n": n} for n in range(count))).encode())
        sending.stdin.flush()
        while len(stored(at_hub, event_type)) < until:
            assert sending.poll() is None
        yield sending


@pytest.mark.parametrize(
    ("number", "status", "says"),
    [(signal.SIGINT, 130, b"penstock: interrupted\n"), (signal.SIGTERM, 143, b"penstock: ended by SIGTERM\n")],
)
def test_interrupted_publish_reports_stored_events_and_those_in_doubt(
    at_hub: Command, orders: str, number: int, status: int, says: bytes
) -> None:
    with sending_lines(at_hub, orders, 25, until=20) as sending:
        sending.send_signal(number)
        _, said = sending.communicate()

    assert sending.returncode == status
    assert says in said
    assert b"20 events are stored for certain. Of the next 5 events (from line 21 of standard input on)" in said
    assert b"--from-line 21" in said


def test_repeated_sigterm_is_reported_once(at_hub: Command, orders: str) -> None:
    with sending_lines(at_hub, orders, 10, until=10) as sending:
        while sending.poll() is None:
            sending.send_signal(signal.SIGTERM)
        _, said = sending.communicate()

    assert said.decode().splitlines() == [
        "penstock: ended by SIGTERM",
        "  10 events are stored; go on with --from-line 11.",
    ]
