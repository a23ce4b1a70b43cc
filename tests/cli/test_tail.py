"""`penstock tail`: from where, which events, for how long."""

import json
import re
import signal
import subprocess
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from penstock.testing.live_hub import live_hub
from tests.cli.command import PENSTOCK, Command


@pytest.fixture
def events(at_hub: Command, orders: str) -> str:
    """The name of an event type with ten events of keys a and b, those of even numbers of kind `even`."""
    lines = [
        {"data": {"n": n}, "key": "ab"[n % 2], "headers": {"ce_type": "odd" if n % 2 else "even"}} for n in range(10)
    ]
    assert at_hub("publish", orders, stdin="".join(json.dumps(line) + "\n" for line in lines)).status == 0
    return orders


def numbers(at_hub: Command, *options: object) -> list[int]:
    read = at_hub("tail", *options, "-o", "json")
    assert read.status == 0, read.err
    return sorted(line["data"]["n"] for line in read.lines)


ALL, EVEN, ODD = list(range(10)), [0, 2, 4, 6, 8], [1, 3, 5, 7, 9]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--from earliest --no-follow", ALL),
        ("--no-follow", []),
        ("-n 2 --no-follow", [6, 7, 8, 9]),
        ("-n 100 --no-follow", ALL),
        ("--from latest -n 2 --no-follow", [6, 7, 8, 9]),
        ("--from 1h --no-follow", ALL),
        ("--from 2999-01-01T00:00:00Z --no-follow", []),
        ("--from earliest --no-follow --kind even", EVEN),
        ("--from earliest --no-follow --skip-kind even", ODD),
        ("--from earliest --no-follow --key b", ODD),
        ("--from earliest --no-follow --key b --key a --count 10", ALL),
    ],
)
def test_tail_prints_the_events_that_the_options_select(
    at_hub: Command, events: str, options: str, expected: list[int]
) -> None:
    assert numbers(at_hub, events, *options.split()) == expected


def test_tail_ends_after_count_and_prints_place_time_key_and_event_for_people(at_hub: Command, events: str) -> None:
    first = ("--from", "earliest", "--no-follow")
    by_partition = [numbers(at_hub, events, *first, "--partition", number) for number in range(4)]
    shown = at_hub("tail", events, "--from", "earliest", "--key", "a", "--count", 1)

    assert len(numbers(at_hub, events, "--from", "earliest", "--count", 3)) == 3
    assert sorted(filter(None, by_partition)) == [EVEN, ODD]
    assert shown.status == 0
    assert re.fullmatch(r' {2}1 {7}0 {2}20\S+T\S+\.\d{3}Z {2}a {2}\{"n": 0\}\n', shown.out)
    assert "ce_source" in at_hub("tail", events, "--from", "earliest", "--count", 1, "--headers").out


def test_lines_for_programs_have_offset_time_and_key_and_can_be_published_again(at_hub: Command, events: str) -> None:
    read = at_hub("tail", events, "--from", "earliest", "--no-follow", "-o", "json")
    first = [line for line in read.lines if line["partition"] == 1]

    assert [line["offset"] for line in first] == list(range(5))
    assert {line["key"] for line in first} == {"a"}
    assert {datetime.fromisoformat(line["received_at"]).utcoffset() for line in first} == {timedelta()}
    assert at_hub("publish", events, stdin=read.out).status == 0
    again = at_hub("tail", events, "--from", "earliest", "--no-follow", "-o", "json").lines
    keys = Counter((line["key"], line["data"]["n"]) for line in again)
    assert keys == {("ab"[n % 2], n): 2 for n in ALL}


def test_unknown_event_type_and_partition_are_reported(at_hub: Command, orders: str) -> None:
    unknown = at_hub("tail", "no.such")
    beyond = at_hub("tail", orders, "--partition", 4)

    assert unknown.status == beyond.status == 1
    assert "there is no event type 'no.such'" in unknown.err
    assert "there is no partition 4" in beyond.err


def test_tail_follows_through_restarts_of_the_hub_until_interrupted(penstock: Command, sqlite_url: str) -> None:
    with live_hub(sqlite_url) as hub:
        at_hub = penstock.at(hub.url)
        at_hub("event-type", "create", "orders")
        at_hub("publish", "orders", stdin='{"data":{"n":0},"key":"a"}')
        with at_hub.start("tail", "orders", "-n", 1, "--key", "a", "-o", "json") as following:
            assert json.loads(following.stdout.readline())["data"] == {"n": 0}  # It has begun.

            for n, end in enumerate([lambda: None, hub.kill, hub.stop], 1):
                end()
                if n > 1:
                    hub.start()
                at_hub("publish", "orders", stdin=f'{{"data":{{"n":{n}}},"key":"a"}}')
                assert json.loads(following.stdout.readline())["data"] == {"n": n}

            following.send_signal(signal.SIGINT)
            assert following.wait(300) == 0
            assert following.stdout.read() == b""


def test_tail_ends_quietly_once_its_output_is_closed(at_hub: Command, events: str) -> None:
    with at_hub.start("tail", events, "--from", "earliest", "--no-follow", "-o", "json") as following:
        following.stdout.close()

        assert following.wait(300) == 0
        assert following.stderr.read() == b""


def test_colours_are_printed_on_terminals_only(at_hub: Command, events: str) -> None:
    tail = ("tail", events, "-n", 1, "--no-follow")

    assert "\x1b[" not in at_hub(*tail).out
    assert "\x1b[" in at_hub.run_on_terminal(*tail)
    assert "\x1b[" not in at_hub.run_on_terminal(*tail, NO_COLOR="1")


def test_tail_fails_if_its_output_cannot_be_written(at_hub: Command, events: str) -> None:
    command = [*PENSTOCK, "tail", events, "--from", "earliest", "--no-follow"]
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(command, env=at_hub.environment, stdout=full, stderr=subprocess.PIPE, check=False)

    assert ended.returncode == 1
    assert ended.stderr.decode() == "penstock: the output cannot be written: No space left on device\n"
