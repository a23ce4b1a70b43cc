"""`penstock event-type apply`, on both databases."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from uuid import uuid4

import httpx2
import msgspec
import pytest

from penstock.client import Client
from penstock.errors import EventTypeNotFound
from penstock.testing.live_hub import LiveHub, live_hub
from tests.answering import answering
from tests.cli.command import Command, Result

ORDERS = """\
name: sales.orders
owning_application: shop
category: data
partition_strategy: hash
partition_key_fields: [id]
partition_count: 2
ordering_key_fields: [data.version]
schema:
  type: object
  required: [id, version]
  properties: {id: {type: string}, version: {type: integer}}
"""
CLICKS = """\
name: clicks
owning_application: shop
category: undefined
schema: {type: object, properties: {n: {type: integer}}}
"""


def apply(command: Command, text: str, *options: object) -> Result:
    return command("event-type", "apply", "-", *options, given=text)


def shown(hub: LiveHub, name: str) -> dict[str, Any]:
    with Client(hub.url) as client:
        return client.event_type(name)


@pytest.fixture
def clicks() -> str:
    """The text of a definition with a name that no hub has yet."""
    return CLICKS.replace("clicks", f"clicks-{uuid4()}")


def name_in(text: str) -> str:
    return text.partition("\n")[0].removeprefix("name: ")


def test_event_types_are_created_replaced_and_given_partitions(database_url: str, penstock: Command) -> None:
    changed = ORDERS.replace("shop", "till").replace("count: 2", "count: 4").replace("integer}}", "integer}, a: {}}")
    with live_hub(database_url) as hub:
        created = apply(penstock, f"{ORDERS}---\n{CLICKS}", "--url", hub.url)
        before = shown(hub, "sales.orders")
        again = apply(penstock, f"{ORDERS}---\n{CLICKS}", "--url", hub.url)
        after = shown(hub, "sales.orders")
        done = apply(penstock, changed, "--url", hub.url)
        replaced = shown(hub, "sales.orders")

    assert (created.status, created.out) == (0, "sales.orders created\nclicks created\n")
    assert (again.status, again.out) == (0, "sales.orders is so already\nclicks is so already\n")
    assert before == after
    assert (before["partition_count"], before["partition_key_fields"]) == (2, ["id"])
    assert (done.status, done.out.splitlines()) == (
        0,
        [
            "sales.orders replaced, schema 1.0.0 -> 1.1.0",
            "sales.orders given more partitions: 2 -> 4",
            '  ~ #/owning_application: "shop" -> "till"',
        ],
    )
    assert (replaced["owning_application"], replaced["partition_count"]) == ("till", 4)
    assert replaced["schema"]["version"] == "1.1.0"


def test_what_guidelines_are_not_kept_is_counted(at_hub: Command, clicks: str) -> None:
    done = apply(at_hub, clicks)

    assert done.status == 0
    assert done.err == f"{name_in(clicks)}: 2 MUST of the guidelines not kept; `event-type check` says more\n"


def test_not_each_of_many_is_told_that_does_not_keep_guidelines(sqlite_url: str, penstock: Command) -> None:
    many = "---\n".join(CLICKS.replace("clicks", f"clicks-{number}") for number in range(12))

    with live_hub(sqlite_url) as hub:
        done = apply(penstock, many, "--url", hub.url, "--dry-run")

    told = done.err.splitlines()
    assert [line.partition(":")[0] for line in told] == [*(f"clicks-{number}" for number in range(10)), told[-1]]
    assert told[-1] == "and 2 event types more"


def test_a_file_that_is_given_twice_is_refused(at_hub: Command, clicks: str) -> None:
    (at_hub.directory / "a.yaml").write_text(clicks)

    done = at_hub("event-type", "apply", "a.yaml", "a.yaml")

    assert (done.status, done.out) == (1, "")
    assert f"  a.yaml:1: {name_in(clicks)}: {name_in(clicks)!r} is given twice: name its file once\n" in done.err


def test_a_member_that_means_nothing_is_told_and_taken(at_hub: Command, hub: LiveHub, clicks: str) -> None:
    done = apply(at_hub, f"{clicks}partition_stratgy: hash\n")

    assert done.status == 0
    said = "partition_stratgy is a member that means nothing to a hub; is it partition_strategy?"
    assert f"<stdin>:5: {name_in(clicks)}: {said}\n" in done.err
    assert shown(hub, name_in(clicks))["partition_stratgy"] == "hash"


def test_member_without_effect_is_told_by_the_hub_and_in_a_dry_run(at_hub: Command, clicks: str) -> None:
    retained = f"{clicks}options: {{retention_time: 86400000}}\n"
    said = "options.retention_time has no effect yet"
    dry, done, again = (apply(at_hub, retained, *options) for options in (["--dry-run"], [], []))

    assert [each.err.count(said) for each in (dry, done, again)] == [1, 1, 0]
    assert f"<stdin>:5: {name_in(clicks)}: {said}" in dry.err
    assert f"{name_in(clicks)}: {said}" in done.err


def test_change_that_loses_the_order_of_keys_is_refused_unless_allowed(
    at_hub: Command, hub: LiveHub, clicks: str
) -> None:
    apply(at_hub, f"{clicks}partition_strategy: hash\npartition_key_fields: [n]\n")
    refused = apply(at_hub, clicks)
    kept = shown(hub, name_in(clicks))["partition_strategy"]
    dry = apply(at_hub, clicks, "--dry-run", "--allow-reordering")
    done = apply(at_hub, clicks, "--allow-reordering")

    assert (refused.status, kept) == (1, "hash")
    assert "allow_reordering" in refused.err
    assert (dry.status, done.status) == (0, 0)
    assert shown(hub, name_in(clicks))["partition_strategy"] == "random"


def test_a_dry_run_shows_the_difference_and_changes_nothing(at_hub: Command, hub: LiveHub, clicks: str) -> None:
    name = name_in(clicks)
    nothing_yet = apply(at_hub, clicks, "--dry-run")
    assert (nothing_yet.status, nothing_yet.out) == (0, f"{name} would be created\n")
    apply(at_hub, clicks)
    before = shown(hub, name)

    changed = clicks.replace(name, f"{name}\npartition_count: 2").replace("{n: {type: integer}}", "{m: {}}")
    done = apply(at_hub, changed, "--dry-run")

    assert done.status == 1
    assert done.out.splitlines() == [
        f"{name} would be replaced",
        f"{name} would be given more partitions: 1 -> 2",
        "  the hub would refuse it: Invalid schema: #/properties/n: properties cannot be removed",
        "   {",
        '     "type": "object",',
        '     "properties": {',
        '  -    "n": {',
        '  -      "type": "integer"',
        "  -    }",
        '  +    "m": {}',
        "     }",
        "   }",
    ]
    assert shown(hub, name) == before


def test_nothing_is_written_where_one_file_is_wrong(at_hub: Command, hub: LiveHub, clicks: str) -> None:
    name = name_in(clicks)
    (at_hub.directory / "good.yaml").write_text(clicks)
    (at_hub.directory / "bad.yaml").write_text(clicks.replace("undefined", "clicked").replace(name, "bad"))

    done = at_hub("event-type", "apply", "good.yaml", "bad.yaml")

    assert (done.status, done.out) == (1, "")
    assert done.err.splitlines() == [
        "penstock: nothing was changed, since definitions are wrong",
        '  bad.yaml:3: bad: category must be one of undefined, business, data, not "clicked"',
    ]
    with pytest.raises(EventTypeNotFound):
        shown(hub, name)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("type: integer", "type: string"), "Invalid schema: #/properties/n: types must be the same"),
        (("undefined", "data"), "category can change from undefined to business alone, not from undefined to data"),
        (("count: 4", "count: 3"), "it has 4 partitions, and cannot have fewer: not 3"),
    ],
)
def test_nothing_is_written_where_one_change_would_be_refused(
    at_hub: Command, hub: LiveHub, clicks: str, change: tuple[str, str], why: str
) -> None:
    registered = f"{clicks}partition_count: 4\n"
    apply(at_hub, registered)
    new = clicks.replace("clicks", "more")

    done = apply(at_hub, f"{new}---\n{registered.replace(*change)}")

    assert (done.status, done.out) == (1, "")
    assert "penstock: nothing was changed, since the hub would refuse it\n" in done.err
    assert f"  {name_in(clicks)}: {why}\n" in done.err
    with pytest.raises(EventTypeNotFound):
        shown(hub, name_in(new))


@contextmanager
def overtaken(hub: LiveHub, name: str, first: Callable[[LiveHub, bytes], None]) -> Iterator[str]:
    """The address of what hands requests on to *hub*, where *first* is done just before *name* is created."""

    class Handing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if (self.command, self.path) == ("POST", "/event-types") and name.encode() in body:
                first(hub, body)
            answer = httpx2.request(self.command, hub.url + self.path, content=body)
            self.send_response(answer.status_code)
            self.send_header("content-type", answer.headers.get("content-type", "text/plain"))
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_POST = do_PUT = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with answering(Handing) as url:
        yield url


def switch_creation_off(hub: LiveHub, _: bytes = b"") -> None:
    feature = {"feature": "disable_event_type_creation", "enabled": True}
    assert httpx2.post(f"{hub.url}/settings/features", json=feature).status_code == 204


def test_what_is_done_already_is_told_where_the_hub_refuses_the_next(sqlite_url: str, penstock: Command) -> None:
    labelled = f"{CLICKS}labels: {{team: a}}\n"
    last = CLICKS.replace("clicks", "last")
    with live_hub(sqlite_url) as hub, overtaken(hub, "sales.orders", switch_creation_off) as url:
        assert apply(penstock, CLICKS, "--url", url).status == 0

        done = apply(penstock, f"{labelled}---\n{ORDERS}---\n{last}", "--url", url)

        assert shown(hub, "clicks")["labels"] == {"team": "a"}
    assert done.status == 1
    assert "penstock: sales.orders: this hub does not do that" in done.err
    assert "  Done before it: clicks. Not tried: last.\n" in done.err


def test_what_is_not_tried_is_not_told_in_full(sqlite_url: str, penstock: Command) -> None:
    rest = [ORDERS, *(CLICKS.replace("clicks", f"clicks-{number}") for number in range(7))]
    with live_hub(sqlite_url) as hub, overtaken(hub, "sales.orders", switch_creation_off) as url:
        done = apply(penstock, "---\n".join(rest), "--url", url)

    first = "clicks-0, clicks-1, clicks-2, clicks-3, clicks-4"
    assert f"  Done before it: nothing. Not tried: {first} and 2 more.\n" in done.err


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({}, "sales.orders is so already"),
        ({"owning_application": "till"}, "sales.orders replaced"),
        ({"partition_count": 1}, "sales.orders given more partitions: 1 -> 2"),
    ],
    ids=["the same", "another owner", "fewer partitions"],
)
def test_what_somebody_else_creates_meanwhile_becomes_what_the_file_says(
    sqlite_url: str, penstock: Command, other: dict[str, Any], says: str
) -> None:
    def create(hub: LiveHub, body: bytes) -> None:
        given = msgspec.json.decode(body) | other
        assert httpx2.post(f"{hub.url}/event-types", json=given).status_code == 201

    with live_hub(sqlite_url) as hub, overtaken(hub, "sales.orders", create) as url:
        done = apply(penstock, f"{ORDERS}---\n{CLICKS}", "--url", url)
        left = shown(hub, "sales.orders")

    assert (done.status, done.out.splitlines()[0], "clicks created" in done.out) == (0, says, True)
    assert (left["owning_application"], left["partition_count"]) == ("shop", 2)


def test_what_somebody_else_creates_meanwhile_may_leave_no_way(sqlite_url: str, penstock: Command) -> None:
    def create(hub: LiveHub, body: bytes) -> None:
        given = msgspec.json.decode(body) | {"partition_count": 4, "owning_application": "till"}
        assert httpx2.post(f"{hub.url}/event-types", json=given).status_code == 201

    with live_hub(sqlite_url) as hub, overtaken(hub, "sales.orders", create) as url:
        done = apply(penstock, f"{ORDERS}---\n{CLICKS}", "--url", url)
        left = shown(hub, "sales.orders")

    assert (done.status, done.out, left["owning_application"]) == (1, "", "till")
    assert "penstock: sales.orders: it has 4 partitions, and cannot have fewer: not 2\n" in done.err
    assert "  Done before it: nothing. Not tried: clicks.\n" in done.err


BROKEN = ORDERS.replace("owning_application: shop", "owning_application: ''")
OWNER = "MUST ownership: definition #/owning_application: it names no application that owns it"


def test_nothing_is_written_where_a_hub_refuses_by_its_guidelines(sqlite_url: str, penstock: Command) -> None:
    more = ORDERS.replace("sales.orders", "sales.more")
    other = BROKEN.replace("sales.orders", "sales.other")
    with live_hub(sqlite_url, options=["--guidelines", "refuse"]) as hub:
        assert apply(penstock, ORDERS, "--url", hub.url).status == 0
        texts = f"{more}---\n{BROKEN}---\n{other}"
        dry = apply(penstock, texts, "--url", hub.url, "--dry-run", "-o", "json")
        done = apply(penstock, texts, "--url", hub.url)
        checked = penstock("event-type", "check", "-", "--against", hub.url, "-o", "json", given=BROKEN)
        with Client(hub.url) as client:
            left = [each["name"] for each in client.event_types()]

    assert (done.status, done.out, left) == (1, "", ["sales.orders"])
    assert "penstock: nothing was changed, since the hub would refuse it\n" in done.err
    assert [line for line in done.err.splitlines() if line.endswith(OWNER)] == [
        f"  sales.orders: {OWNER}",
        f"  sales.other: {OWNER}",
    ]
    assert (dry.status, [each["refused"] for each in dry.json["event_types"]]) == (1, [[], [OWNER], [OWNER]])
    assert (checked.status, checked.json["event_types"][0]["against"]["refused"]) == (1, [OWNER])


def test_what_a_hub_has_already_may_break_its_guidelines(sqlite_url: str, penstock: Command) -> None:
    with live_hub(sqlite_url) as hub:
        assert apply(penstock, BROKEN, "--url", hub.url).status == 0
    with live_hub(sqlite_url, options=["--guidelines", "refuse"]) as hub:
        done = apply(penstock, BROKEN, "--url", hub.url)

    assert (done.status, done.out) == (0, "sales.orders is so already\n")


def test_nothing_is_written_beyond_what_a_hub_allows(sqlite_url: str, penstock: Command) -> None:
    many = ORDERS.replace("sales.orders", "sales.many").replace("count: 2", "count: 9")
    more = CLICKS.replace("owning", "partition_count: 9\nowning")
    with live_hub(sqlite_url, options=["--nakadi-strict"]) as hub:
        assert apply(penstock, CLICKS, "--url", hub.url).status == 0
        done = apply(penstock, f"{ORDERS}---\n{many}---\n{more}", "--url", hub.url)
        switch_creation_off(hub)
        off = apply(penstock, ORDERS, "--url", hub.url, "--dry-run")

    assert (done.status, done.out) == (1, "")
    assert "  sales.many: partition_count must be a whole number from 1 to 8, not 9\n" in done.err
    assert "  clicks: partition_count must be from 1, which there are, to 8, not 9\n" in done.err
    switched = "this hub does not do that: its feature disable_event_type_creation is switched on"
    assert (off.status, off.out) == (1, f"sales.orders would be created\n  the hub would refuse it: {switched}\n")


def test_programs_get_json(at_hub: Command, clicks: str) -> None:
    created = apply(at_hub, clicks, "-o", "json").json
    changed = clicks.replace("shop", "till").replace("integer}", "integer}, m: {}")
    planned = apply(at_hub, changed, "--dry-run", "-o", "json").json
    done = apply(at_hub, changed, "-o", "json").json

    assert created["event_types"][0]["steps"] == ["create"]
    assert (planned["dry_run"], done["dry_run"]) == (True, False)
    assert planned["event_types"] == done["event_types"]
    [told] = done["event_types"]
    assert (told["name"], told["steps"], told["refused"]) == (name_in(clicks), ["replace"], [])
    assert told["differences"] == [{"pointer": "#/owning_application", "before": "shop", "after": "till"}]
    assert told["schema_version"] == {"before": "1.0.0", "after": "1.1.0"}


def test_what_one_hub_lists_another_takes(sqlite_url: str, penstock: Command, at_hub: Command, clicks: str) -> None:
    apply(at_hub, f"{clicks}partition_count: 4\n")
    listed = at_hub("event-type", "list", "-o", "json").out

    with live_hub(sqlite_url) as other:
        done = apply(penstock, listed, "--url", other.url)
        moved = shown(other, name_in(clicks))

    assert done.status == 0
    assert f"{name_in(clicks)} created\n" in done.out
    assert (moved["partition_count"], moved["schema"]["version"]) == (4, "1.0.0")
    assert f"{name_in(clicks)} is so already\n" in apply(at_hub, listed).out


def test_a_hub_that_keeps_to_nakadi_is_understood(sqlite_url: str, penstock: Command) -> None:
    with live_hub(sqlite_url, options=["--nakadi-strict"]) as hub:
        created = apply(penstock, ORDERS, "--url", hub.url)
        again = apply(penstock, ORDERS, "--url", hub.url)
        changed = apply(penstock, ORDERS.replace("shop", "till"), "--url", hub.url)
        nothing = penstock("event-type", "show", "clicks", "--url", hub.url)

    assert (created.status, created.out) == (0, "sales.orders created\n")
    assert (again.status, again.out) == (0, "sales.orders is so already\n")
    assert (changed.status, changed.out.splitlines()[0]) == (0, "sales.orders replaced")
    assert (nothing.status, nothing.err.splitlines()[0]) == (1, "penstock: there is no event type 'clicks'")
