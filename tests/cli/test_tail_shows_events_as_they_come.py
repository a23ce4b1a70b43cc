"""`penstock tail`: from where, which ones, for how long."""

import json
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.testing.live_hub import live_hub
from tests.cli.command import PENSTOCK, Command


@pytest.fixture
def filled(at_hub: Command, orders: str) -> str:
    """Ten events of keys a and b, those of even numbers of kind `even`."""
    lines = [
        {"data": {"n": n}, "key": "ab"[n % 2], "headers": {"ce_type": "even"} if n % 2 == 0 else {"ce_type": "odd"}}
        for n in range(10)
    ]
    given = "".join(json.dumps(line) + "\n" for line in lines)
    assert at_hub("publish", orders, stdin=given).status == 0
    return orders


def numbers(at_hub: Command, *options: object) -> list[int]:
    read = at_hub("tail", *options, "-o", "json")
    assert read.status == 0, read.err
    return sorted(line["data"]["n"] for line in read.lines)


def test_from_the_beginning_to_the_end(at_hub: Command, filled: str) -> None:
    assert numbers(at_hub, filled, "--from", "first", "--no-follow") == list(range(10))
    assert numbers(at_hub, filled, "--no-follow") == []


def test_the_last_of_each_partition(at_hub: Command, filled: str) -> None:
    assert numbers(at_hub, filled, "-n", 2, "--no-follow") == [6, 7, 8, 9]
    assert numbers(at_hub, filled, "-n", 100, "--no-follow") == list(range(10))
    assert numbers(at_hub, filled, "--from", "last", "-n", 2, "--no-follow") == [6, 7, 8, 9]


def test_all_and_the_last_of_them_exclude_each_other(at_hub: Command, filled: str) -> None:
    refused = at_hub("tail", filled, "--from", "first", "-n", 2, "--no-follow", COLUMNS="200")

    assert refused.status == 2
    assert "give one of them" in refused.err


def test_only_some(at_hub: Command, filled: str) -> None:
    first = ("--from", "first", "--no-follow")

    assert numbers(at_hub, filled, *first, "--kind", "even") == [0, 2, 4, 6, 8]
    assert numbers(at_hub, filled, *first, "--skip-kind", "even") == [1, 3, 5, 7, 9]
    assert numbers(at_hub, filled, *first, "--key", "b") == [1, 3, 5, 7, 9]
    assert numbers(at_hub, filled, *first, "--key", "b", "--key", "a", "--count", 10) == list(range(10))
    by_partition = [numbers(at_hub, filled, *first, "--partition", number) for number in range(4)]
    assert sorted(filter(None, by_partition)) == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]


def test_people_see_partition_key_and_event(at_hub: Command, filled: str) -> None:
    shown = at_hub("tail", filled, "--from", "first", "--key", "a", "--count", 1)

    assert shown.status == 0
    assert shown.out == '  1  a  {"n": 0}\n'
    assert "ce_source" in at_hub("tail", filled, "--from", "first", "--count", 1, "--headers").out


def test_it_goes_on_when_the_hub_comes_back(penstock: Command, sqlite_url: str) -> None:
    with live_hub(sqlite_url) as hub:
        at_hub = replace(penstock, environment=penstock.environment | {"PENSTOCK_URL": hub.url})
        at_hub("event-type", "create", "orders")
        at_hub("publish", "orders", stdin='{"data":{"n":0}}')
        with at_hub.start("tail", "orders", "--from", "first", "-o", "json") as following:
            assert following.stdout
            assert json.loads(following.stdout.readline())["data"] == {"n": 0}  # It has begun.

            for n, ends in enumerate([hub.kill, hub.stop], 1):
                ends()
                hub.start()
                at_hub("publish", "orders", stdin=f'{{"data":{{"n":{n}}}}}')
                assert json.loads(following.stdout.readline())["data"] == {"n": n}

            following.send_signal(signal.SIGINT)
            assert following.wait(300) == 0
            assert following.stdout.read() == b""


def test_it_follows_until_interrupted(at_hub: Command, filled: str) -> None:
    with at_hub.start("tail", filled, "-n", 1, "--key", "a", "-o", "json") as following:
        assert following.stdout
        assert following.stderr
        assert json.loads(following.stdout.readline())["data"] == {"n": 8}  # It has begun.

        at_hub("publish", filled, stdin='{"data":{"n":10},"key":"a"}')
        come = json.loads(following.stdout.readline())
        following.send_signal(signal.SIGINT)

        assert come["data"] == {"n": 10}
        assert following.wait(300) == 0
        assert following.stderr.read() == b""


def test_it_ends_after_so_many(at_hub: Command, filled: str) -> None:
    assert len(numbers(at_hub, filled, "--from", "first", "--count", 3)) == 3


def test_nobody_reads_on(at_hub: Command, filled: str) -> None:
    with at_hub.start("tail", filled, "--from", "first", "--no-follow", "-o", "json") as following:
        assert following.stdout
        assert following.stderr
        following.stdout.close()

        assert following.wait(300) == 0
        assert following.stderr.read() == b""


def test_what_is_not_there_is_told(at_hub: Command, orders: str) -> None:
    unknown = at_hub("tail", "no.such")
    beyond = at_hub("tail", orders, "--partition", 4)

    assert unknown.status == beyond.status == 1
    assert "there is no event type 'no.such'" in unknown.err
    assert "there is no partition 4" in beyond.err
    assert at_hub("tail", orders, "--kind", "a", "--skip-kind", "b").status == 2


def test_colours_are_for_terminals_only(at_hub: Command, filled: str) -> None:
    tail = ("tail", filled, "-n", 1, "--no-follow")

    assert "\x1b[" not in at_hub(*tail).out
    assert "\x1b[" in at_hub.run_on_terminal(*tail)
    assert "\x1b[" not in at_hub.run_on_terminal(*tail, NO_COLOR="1")


def test_output_that_cannot_be_written_is_told(at_hub: Command, filled: str) -> None:
    command = [*PENSTOCK, "tail", filled, "--from", "first", "--no-follow"]
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            command, cwd=at_hub.directory, env=at_hub.environment, stdout=full, stderr=subprocess.PIPE, check=False
        )

    assert ended.returncode == 1
    assert ended.stderr.decode() == "penstock: the output cannot be written: No space left on device\n"
