"""`penstock event-type create`, `list`, `show` and `delete`, for people and for programs."""

import json

import pytest

from tests.cli.command import Command


def test_event_type_is_created_listed_shown_and_deleted(at_hub: Command) -> None:
    options = "--category business --partitions 3 --partition-key-field id --owning-application shop"

    created = at_hub("event-type", "create", "come.and.go", *options.split())
    listed = at_hub("event-type", "list")
    shown = at_hub("event-type", "show", "come.and.go")
    deleted = at_hub("event-type", "delete", "come.and.go", "--yes")

    assert created.out == "created come.and.go: 3 partitions (hash of id)\n"
    assert any("come.and.go" in line and "hash of id" in line and "shop" in line for line in listed.out.splitlines())
    assert "business" in shown.out
    assert "next offset" in shown.out
    assert deleted.out == "deleted come.and.go and its 0 events\n"
    assert at_hub("event-type", "show", "come.and.go").status == 1


def test_event_type_commands_print_json_on_request(at_hub: Command, orders: str) -> None:
    listed = at_hub("event-type", "list", "--output", "json").json
    shown = at_hub("event-type", "show", orders, "-o", "json").json
    deleted = at_hub("event-type", "delete", orders, "--yes", "-o", "json").json
    created = at_hub("event-type", "create", orders, "-o", "json").json

    assert orders in {each["name"] for each in listed}
    assert shown["partition_key_fields"] == ["order_id"]
    assert shown["partitions"][3] == {"partition": 3, "first_offset": 0, "next_offset": 0, "events": 0}
    assert deleted == {"name": orders, "deleted_events": 0}
    assert (created["category"], created["partition_count"]) == ("undefined", 1)


def test_create_reads_a_file_or_stdin_and_options_override_it(at_hub: Command) -> None:
    definition = json.dumps({"name": "from.file", "category": "data", "labels": {"team": "a"}, "partition_count": 2})
    (at_hub.directory / "definition.json").write_text(definition)

    created = at_hub("event-type", "create", "--file", "definition.json", "--partitions", 5, "-o", "json").json
    from_pipe = at_hub("event-type", "create", "from.pipe", "--file", "-", "-o", "json", stdin=definition).json

    assert (created["name"], created["partition_count"], created["labels"]) == ("from.file", 5, {"team": "a"})
    assert (from_pipe["name"], from_pipe["category"]) == ("from.pipe", "data")


def test_create_reports_a_member_that_was_probably_meant_otherwise(at_hub: Command) -> None:
    lists = {"readers": [{"data_type": "service", "value": "billing"}]}
    created = at_hub("event-type", "create", "misspelled", "--file", "-", stdin=json.dumps({"authorisation": lists}))

    assert created.status == 0
    assert "misspelled: authorisation is a member that means nothing to a hub; is it authorization?" in created.err


def test_event_size_limit_is_shown_and_enforced_and_member_without_effect_is_reported(at_hub: Command) -> None:
    definition = json.dumps({"event_owner_selector": {"type": "static", "name": "owner", "value": "ada"}})
    created = at_hub("event-type", "create", "short", "--max-event-bytes", 65_536, "--file", "-", stdin=definition)
    shown = at_hub("event-type", "show", "short")
    refused = at_hub("publish", "short", stdin=json.dumps({"text": "x" * 65_536}))

    assert (created.status, shown.status, refused.status) == (0, 0, 1)
    assert "short: event_owner_selector has no effect" in created.err
    assert "lines of its feed have at most 65536 bytes" in shown.out
    assert "line 1 of standard input: the event takes up to " in refused.err
    assert "more than the max_event_bytes of 'short', 65536\n" in refused.err


def test_delete_asks_first(at_hub: Command, orders: str) -> None:
    at_hub("publish", orders, stdin='{"order_id":"a"}')

    for answer in ("", "n\n"):
        refused = at_hub("event-type", "delete", orders, stdin=answer)
        assert refused.status == 1
        assert refused.err.splitlines() == [
            f"Delete {orders} and its 1 event for ever? [y/N] ",
            "penstock: nobody said yes, nothing was deleted",
            "  --yes deletes without asking.",
        ]
    assert at_hub("event-type", "show", orders).status == 0

    agreed = at_hub("event-type", "delete", orders, stdin="y\n")
    assert (agreed.status, agreed.out) == (0, f"deleted {orders} and its 1 event\n")


@pytest.mark.parametrize(
    "options",
    [
        "--partition-strategy random --partition-key-field id",
        "--partition-strategy user_defined --partition-key-field id",
        "--partition-strategy user_defined --file hash.json",
        "--file no-strategy.json",
    ],
)
def test_key_fields_without_hash_strategy_are_refused(at_hub: Command, options: str) -> None:
    definition = {"category": "undefined", "partition_key_fields": ["id"]}
    (at_hub.directory / "no-strategy.json").write_text(json.dumps(definition))
    (at_hub.directory / "hash.json").write_text(json.dumps(definition | {"partition_strategy": "hash"}))

    refused = at_hub("event-type", "create", "no.effect", *options.split(), COLUMNS="300")

    assert refused.status == 2
    assert "key fields have no effect: use --partition-strategy hash, or leave the key fields out" in refused.err
    assert at_hub("event-type", "show", "no.effect").status == 1


def test_one_partition_and_one_event_are_counted_in_the_singular(at_hub: Command, orders: str) -> None:
    at_hub("event-type", "create", f"{orders}-one")

    beyond = at_hub("tail", f"{orders}-one", "--partition", 4)
    published = at_hub("publish", f"{orders}-one", stdin="{}")

    assert "has 1 partition, numbered from 0; there is no partition 4" in beyond.err
    assert published.out.startswith("published 1 event to ")
    assert "1 event\n" in at_hub("event-type", "show", f"{orders}-one").out


def test_refusal_of_the_hub_is_printed_in_one_or_two_lines(at_hub: Command, orders: str) -> None:
    again = at_hub("event-type", "create", orders)
    unknown = at_hub("event-type", "show", "no.such")
    keyless = at_hub("event-type", "create", "keyless", "--partition-strategy", "hash")

    assert (again.status, again.out) == (1, "")
    assert again.err.splitlines() == [
        f"penstock: event type '{orders}' exists already",
        "  Use the existing event type, or choose another name.",
    ]
    assert unknown.err.splitlines() == [
        "penstock: there is no event type 'no.such'",
        "  `penstock event-type list` has all; `penstock event-type create NAME` makes one.",
    ]
    assert "partition_key_fields" in keyless.err
    assert keyless.status == 1
