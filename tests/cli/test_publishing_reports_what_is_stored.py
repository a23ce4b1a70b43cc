"""`penstock publish`, from files and pipes."""

import json
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.command import PENSTOCK, Command


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
    assert second == "  4 events are stored; go on with --from-line 6."
    assert [line["data"] for line in tail(at_hub, orders)] == good[:4]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (b'\xef\xbb\xbf{"order_id":"a"}\n', "it begins with a UTF-8 byte order mark"),
        (b'{"order_id":"a\xe9"}\n', "byte 15 of the line (E9; byte 15 of the input) is not UTF-8"),
        (b'{"data":{"order_id":"a\xe9"}}\n', "byte 23 of the line (E9; byte 23 of the input) is not UTF-8"),
    ],
)
def test_what_is_not_quite_utf_8_is_called_so(at_hub: Command, orders: str, given: bytes, says: str) -> None:
    failed = at_hub("publish", orders, given=given)

    assert failed.status == 1
    assert failed.err.startswith(f"penstock: line 1 of standard input: {says}")
    assert failed.err.splitlines()[1] == "  Nothing was published."


def test_what_only_the_hub_can_refuse_is_named_by_its_line_too(at_hub: Command, orders: str) -> None:
    given = "\n" + lines({"order_id": "a"}, {"order_id": "b"}, {"no_order": 1})

    failed = at_hub("publish", orders, "--batch", 2, given=given)

    assert failed.status == 1
    assert failed.err.splitlines()[0].startswith("penstock: line 4 of standard input: partition key field 'order_id'")
    assert failed.err.splitlines()[1] == "  2 events are stored; go on with --from-line 4."


def test_an_event_that_is_too_large_is_named(at_hub: Command, orders: str) -> None:
    failed = at_hub("publish", orders, given=lines({"order_id": "a", "fill": "x" * 1_000_000}))

    assert failed.status == 1
    assert "line 1 of standard input" in failed.err
    assert "Nothing was published." in failed.err


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


def fill(pipe: Path, *events: object) -> threading.Thread:
    """Make a named pipe and write events into it as soon as somebody reads."""
    os.mkfifo(pipe)
    writing = threading.Thread(target=lambda: pipe.write_text(lines(*events)))
    writing.start()
    return writing


def test_a_pipe_has_a_name_like_a_file(at_hub: Command, orders: str) -> None:
    given = [{"order_id": "a", "n": n} for n in range(3)]
    writing = fill(at_hub.directory / "pipe", *given)

    published = at_hub("publish", orders, "pipe")
    writing.join()

    assert (published.status, published.err) == (0, "")
    assert [line["data"] for line in tail(at_hub, orders)] == given


def test_the_output_of_a_command_can_stand_for_a_file(at_hub: Command, orders: str) -> None:
    given = [{"order_id": "a", "n": n} for n in range(3)]
    (at_hub.directory / "orders.ndjson").write_text(lines(*given))

    command = f"{shlex.join([*PENSTOCK, 'publish', orders])} <(cat orders.ndjson)"
    subprocess.run(["bash", "-c", command], cwd=at_hub.directory, env=at_hub.environment, check=True)

    assert [line["data"] for line in tail(at_hub, orders)] == given


def test_progress_has_a_total_only_where_the_size_is_known(at_hub: Command, orders: str) -> None:
    given = [{"order_id": "a", "n": n} for n in range(3)]
    (at_hub.directory / "file").write_text(lines(*given))
    writing = fill(at_hub.directory / "pipe", *given)

    of_file = at_hub.on_a_terminal("publish", orders, "file")
    of_pipe = at_hub.on_a_terminal("publish", orders, "pipe")
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
def test_what_cannot_be_read_is_called_what_it_is(at_hub: Command, orders: str, name: str, says: str) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(at_hub.directory / "socket"))

        refused = at_hub("publish", orders, name, COLUMNS="200")

    assert refused.status == 2
    assert says in refused.err


def test_input_that_ends_in_an_error_is_told_with_what_is_stored(at_hub: Command, orders: str) -> None:
    failed = at_hub("publish", orders, "/proc/self/mem")

    assert failed.status == 1
    assert failed.err.splitlines() == [
        "penstock: /proc/self/mem cannot be read: Input/output error",
        "  Nothing was published.",
    ]


@contextmanager
def sending_lines(at_hub: Command, event_type: str, count: int, *, stored: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Publish in batches of 10 from an input that stays open, until *stored* of its *count* lines are there."""
    with at_hub.started("publish", event_type, "--batch", 10, stdin=subprocess.PIPE) as sending:
        assert sending.stdin
        sending.stdin.write(lines(*({"order_id": "a", "n": n} for n in range(count))).encode())
        sending.stdin.flush()
        while len(tail(at_hub, event_type)) < stored:
            assert sending.poll() is None
        yield sending


@pytest.mark.parametrize(
    ("number", "status", "says"),
    [(signal.SIGINT, 130, b"penstock: interrupted\n"), (signal.SIGTERM, 143, b"penstock: ended by SIGTERM\n")],
)
def test_who_interrupts_is_told_what_is_stored(
    at_hub: Command, orders: str, number: int, status: int, says: bytes
) -> None:
    with sending_lines(at_hub, orders, 25, stored=20) as sending:
        sending.send_signal(number)
        _, said = sending.communicate(timeout=60)

    assert sending.returncode == status
    assert says in said
    assert b"20 events are stored for certain. Of the next 5 events (from line 21 of standard input on)" in said
    assert b"--from-line 21" in said


def test_sigterm_is_told_of_once_however_often_it_comes(at_hub: Command, orders: str) -> None:
    with sending_lines(at_hub, orders, 10, stored=10) as sending:
        while sending.poll() is None:
            sending.send_signal(signal.SIGTERM)
        _, said = sending.communicate(timeout=60)

    assert said.decode().splitlines() == [
        "penstock: ended by SIGTERM",
        "  10 events are stored; go on with --from-line 11.",
    ]


def test_to_go_on_behind_the_last_line_is_to_be_done(at_hub: Command, orders: str) -> None:
    done = at_hub("publish", orders, "--from-line", 3, given=lines({"order_id": "a"}, {"order_id": "b"}))

    assert done.status == 0
    assert tail(at_hub, orders) == []


def test_a_line_to_begin_with_that_is_not_there_is_told(at_hub: Command, orders: str) -> None:
    refused = at_hub("publish", orders, "--from-line", 9, given=lines({"order_id": "a"}, {"order_id": "b"}))

    assert refused.status == 1
    assert "there is no line 9: the last one is line 2" in refused.err
    assert tail(at_hub, orders) == []
