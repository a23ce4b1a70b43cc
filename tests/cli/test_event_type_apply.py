"""`penstock event-type apply`: event types become as files define them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import httpx2
import msgspec
import pytest
import yaml

from penstock.client import Client
from penstock.errors import EventTypeNotFound
from penstock.testing.live_hub import LiveHub, live_hub
from tests.cli.command import Command, Result
from tests.faults.proxy import Line, Visit, passed

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
    return command("event-type", "apply", "-", *options, stdin=text)


def shown(hub: LiveHub, name: str) -> dict[str, Any]:
    with Client(hub.url) as client:
        return client.event_type(name)


@pytest.fixture
def clicks() -> str:
    """The text of a definition with a name that no hub has yet."""
    return CLICKS.replace("clicks", f"clicks-{uuid4()}")


@pytest.fixture
def orders() -> str:
    """The same, with two partitions and keys."""
    return ORDERS.replace("sales.orders", f"orders-{uuid4()}")


def name_in(text: str) -> str:
    return text.partition("\n")[0].removeprefix("name: ")


def test_event_types_are_created_replaced_and_grown(database_url: str, penstock: Command) -> None:
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


def test_apply_prints_json_on_request(at_hub: Command, clicks: str) -> None:
    created = apply(at_hub, clicks, "-o", "json").json
    changed = clicks.replace("shop", "till").replace("integer}", "integer}, m: {}")
    planned = apply(at_hub, changed, "--dry-run", "-o", "json").json
    done = apply(at_hub, changed, "-o", "json").json

    assert created["event_types"][0]["steps"] == ["create"]
    assert (planned["dry_run"], done["dry_run"]) == (True, False)
    assert planned["event_types"] == done["event_types"]
    [event_type] = done["event_types"]
    assert (event_type["name"], event_type["steps"], event_type["refused"]) == (name_in(clicks), ["replace"], [])
    assert event_type["differences"] == [{"pointer": "#/owning_application", "before": "shop", "after": "till"}]
    assert event_type["schema_version"] == {"before": "1.0.0", "after": "1.1.0"}


def test_dry_run_tells_the_steps_and_changes_nothing(at_hub: Command, hub: LiveHub, clicks: str) -> None:
    name = name_in(clicks)
    nothing_yet = apply(at_hub, clicks, "--dry-run")
    assert (nothing_yet.status, nothing_yet.out) == (0, f"{name} would be created\n")
    apply(at_hub, clicks)
    before = shown(hub, name)

    changed = clicks.replace(name, f"{name}\npartition_count: 2").replace("{n: {type: integer}}", "{m: {}}")
    done = apply(at_hub, changed, "--dry-run")

    assert (done.status, done.out.splitlines()[:3]) == (
        1,
        [
            f"{name} would be replaced",
            f"{name} would be given more partitions: 1 -> 2",
            "  the hub would refuse it: Invalid schema: #/properties/n: properties cannot be removed",
        ],
    )
    assert shown(hub, name) == before


# Notes


def test_broken_guidelines_are_counted_for_ten_event_types_at_most(at_hub: Command, clicks: str) -> None:
    done = apply(at_hub, clicks)
    many = "---\n".join(CLICKS.replace("clicks", f"clicks-{number}") for number in range(12))
    notes = apply(at_hub, many, "--dry-run").err.splitlines()

    assert done.status == 0
    assert done.err == f"{name_in(clicks)}: 2 MUST of the guidelines not kept; `event-type check` says more\n"
    assert [line.partition(":")[0] for line in notes] == [*(f"clicks-{number}" for number in range(10)), notes[-1]]
    assert notes[-1] == "and 2 event types more"


def test_unknown_member_is_reported_and_kept(at_hub: Command, hub: LiveHub, clicks: str) -> None:
    done = apply(at_hub, f"{clicks}partition_stratgy: hash\n")

    assert done.status == 0
    said = "partition_stratgy is a member that means nothing to a hub; is it partition_strategy?"
    assert f"<stdin>:5: {name_in(clicks)}: {said}\n" in done.err
    assert shown(hub, name_in(clicks))["partition_stratgy"] == "hash"


def test_member_without_effect_is_reported_by_the_hub_and_in_a_dry_run(at_hub: Command, clicks: str) -> None:
    selected = f"{clicks}event_owner_selector: {{type: static, name: owner, value: ada}}\n"
    said = "event_owner_selector has no effect"
    dry, done, again = (apply(at_hub, selected, *options) for options in (["--dry-run"], [], []))

    assert [each.err.count(said) for each in (dry, done, again)] == [1, 1, 0]
    assert f"<stdin>:5: {name_in(clicks)}: {said}" in dry.err
    assert f"{name_in(clicks)}: {said}" in done.err


# Refusals


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


def test_nothing_is_written_if_a_definition_is_wrong(at_hub: Command, hub: LiveHub, clicks: str) -> None:
    name = name_in(clicks)
    (at_hub.directory / "good.yaml").write_text(clicks)
    (at_hub.directory / "bad.yaml").write_text(clicks.replace("undefined", "clicked").replace(name, "bad"))

    wrong = at_hub("event-type", "apply", "good.yaml", "bad.yaml")
    twice = at_hub("event-type", "apply", "good.yaml", "good.yaml")

    assert [(each.status, each.out) for each in (wrong, twice)] == [(1, "")] * 2
    assert wrong.err.splitlines() == [
        "penstock: nothing was changed, since definitions are wrong",
        '  bad.yaml:3: bad: category must be one of undefined, business, data, not "clicked"',
    ]
    assert f"  good.yaml:1: {name}: {name!r} is given twice: name its file once\n" in twice.err
    with pytest.raises(EventTypeNotFound):
        shown(hub, name)


def test_nothing_is_written_if_one_change_would_be_refused(at_hub: Command, hub: LiveHub, clicks: str) -> None:
    apply(at_hub, clicks)
    new = clicks.replace("clicks", "more")

    done = apply(at_hub, f"{new}---\n{clicks.replace('type: integer', 'type: string')}")

    assert (done.status, done.out) == (1, "")
    assert "penstock: nothing was changed, since the hub would refuse it\n" in done.err
    assert f"  {name_in(clicks)}: Invalid schema: #/properties/n: types must be the same\n" in done.err
    with pytest.raises(EventTypeNotFound):
        shown(hub, name_in(new))


def test_nothing_is_written_if_the_guidelines_of_the_hub_refuse_it(sqlite_url: str, penstock: Command) -> None:
    broken = ORDERS.replace("owning_application: shop", "owning_application: ''")
    why = "MUST ownership: definition #/owning_application: it names no application that owns it"
    more, other, earlier = (ORDERS.replace("sales.orders", f"sales.{name}") for name in ("more", "other", "earlier"))
    texts = f"{more}---\n{broken}---\n{other.replace('owning_application: shop', '')}"
    earlier = earlier.replace("owning_application: shop", "owning_application: ''")
    with live_hub(sqlite_url) as hub:
        assert apply(penstock, earlier, "--url", hub.url).status == 0
    with live_hub(sqlite_url, options=["--guidelines", "refuse"]) as hub:
        assert apply(penstock, ORDERS, "--url", hub.url).status == 0
        dry = apply(penstock, texts, "--url", hub.url, "--dry-run", "-o", "json")
        done = apply(penstock, texts, "--url", hub.url)
        checked = penstock("event-type", "check", "-", "--against", hub.url, "-o", "json", stdin=broken)
        unchanged = apply(penstock, earlier, "--url", hub.url)
        with Client(hub.url) as client:
            left = [each["name"] for each in client.event_types()]

    assert (done.status, done.out, left) == (1, "", ["sales.earlier", "sales.orders"])
    assert "penstock: nothing was changed, since the hub would refuse it\n" in done.err
    refused = [line for line in done.err.splitlines() if line.endswith(why)]
    assert refused == [f"  sales.orders: {why}", f"  sales.other: {why}"]
    assert (dry.status, [each["refused"] for each in dry.json["event_types"]]) == (1, [[], [why], [why]])
    assert (checked.status, checked.json["event_types"][0]["against"]["refused"]) == (1, [why])
    assert (unchanged.status, unchanged.out) == (0, "sales.earlier is so already\n"), "it was there before"


def test_nakadi_strict_hub_is_understood_and_its_limits_are_kept(sqlite_url: str, penstock: Command) -> None:
    many = ORDERS.replace("sales.orders", "sales.many").replace("count: 2", "count: 9")
    more = CLICKS.replace("owning", "partition_count: 9\nowning")
    with live_hub(sqlite_url, options=["--nakadi-strict"]) as hub:
        created, again = (apply(penstock, CLICKS, "--url", hub.url) for _ in range(2))
        changed = apply(penstock, CLICKS.replace("shop", "till"), "--url", hub.url)
        unknown = penstock("event-type", "show", "no.such", "--url", hub.url)
        beyond = apply(penstock, f"{ORDERS}---\n{many}---\n{more}", "--url", hub.url)
        switch_creation(hub, is_off=True)
        off = apply(penstock, ORDERS, "--url", hub.url, "--dry-run")

    assert (created.status, created.out) == (0, "clicks created\n")
    assert (again.status, again.out) == (0, "clicks is so already\n")
    assert (changed.status, changed.out.splitlines()[0]) == (0, "clicks replaced")
    assert (unknown.status, unknown.err.splitlines()[0]) == (1, "penstock: there is no event type 'no.such'")
    assert (beyond.status, beyond.out) == (1, "")
    assert "  sales.many: partition_count must be a whole number from 1 to 8, not 9\n" in beyond.err
    assert "  clicks: partition_count must be from 1, which there are, to 8, not 9\n" in beyond.err
    switched = "this hub does not allow this operation: feature disable_event_type_creation is on"
    assert (off.status, off.out) == (1, f"sales.orders would be created\n  the hub would refuse it: {switched}\n")


def switch_creation(hub: LiveHub, *, is_off: bool) -> None:
    feature = {"feature": "disable_event_type_creation", "enabled": is_off}
    assert httpx2.post(f"{hub.url}/settings/features", json=feature).status_code == 204


# Races


@contextmanager
def racing(hub: LiveHub, name: str, first: Callable[[bytes], None]) -> Iterator[str]:
    """Yield the URL of a proxy before *hub* that calls *first* just before it passes on a creation of *name*."""

    def creates(visit: Visit) -> bool:
        return (visit.method, visit.path) == ("POST", "/event-types") and name.encode() in visit.body()

    def pass_on_later(visit: Visit) -> None:
        first(visit.body())
        passed(visit)

    with Line(hub.port) as line:
        line.does(pass_on_later, pass_on_later, to=creates)
        yield line.url


def test_refusal_in_the_middle_names_the_finished_and_the_untried_event_types(
    hub: LiveHub, at_hub: Command, clicks: str, orders: str
) -> None:
    labelled = f"{clicks}labels: {{team: a}}\n"
    rest = "---\n".join(CLICKS.replace("clicks", f"rest-{number}") for number in range(7))
    apply(at_hub, clicks)
    with racing(hub, name_in(orders), lambda _: switch_creation(hub, is_off=True)) as url:
        done = apply(at_hub, f"{labelled}---\n{orders}---\n{rest}", "--url", url)
        switch_creation(hub, is_off=False)
        nothing = apply(at_hub, f"{orders}---\n{CLICKS}", "--url", url)
        switch_creation(hub, is_off=False)

    assert shown(hub, name_in(clicks))["labels"] == {"team": "a"}
    assert (done.status, nothing.status) == (1, 1)
    assert f"penstock: {name_in(orders)}: this hub does not allow this operation" in done.err
    untried = "rest-0, rest-1, rest-2, rest-3, rest-4 and 2 more"
    assert f"  Done before it: {name_in(clicks)}. Not tried: {untried}.\n" in done.err
    assert "  Done before it: nothing. Not tried: clicks.\n" in nothing.err


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({}, "is so already"),
        ({"owning_application": "till"}, "replaced"),
        ({"partition_count": 1}, "given more partitions: 1 -> 2"),
        ({"partition_count": 4, "owning_application": "till"}, None),
    ],
    ids=["same", "other owner", "fewer partitions", "more partitions"],
)
def test_event_type_created_concurrently_becomes_as_the_file_says_if_it_can(
    hub: LiveHub, at_hub: Command, orders: str, other: dict[str, Any], says: str | None
) -> None:
    def create(body: bytes) -> None:
        definition = msgspec.json.decode(body) | other
        assert httpx2.post(f"{hub.url}/event-types", json=definition).status_code == 201

    name = name_in(orders)
    clicks = CLICKS.replace("clicks", f"clicks-{name[-12:]}")
    with racing(hub, name, create) as url:
        done = apply(at_hub, f"{orders}---\n{clicks}", "--url", url)
    left = shown(hub, name)

    if says:
        assert (done.status, done.out.splitlines()[0]) == (0, f"{name} {says}")
        assert f"{name_in(clicks)} created" in done.out
        assert (left["owning_application"], left["partition_count"]) == ("shop", 2)
    else:
        assert (done.status, done.out, left["owning_application"]) == (1, "", "till")
        assert f"penstock: {name}: it has 4 partitions, and cannot have fewer: not 2\n" in done.err
        assert f"  Done before it: nothing. Not tried: {name_in(clicks)}.\n" in done.err


def test_list_of_one_hub_is_applied_to_another(sqlite_url: str, at_hub: Command, hub: LiveHub, clicks: str) -> None:
    with live_hub(sqlite_url) as other:
        apply(at_hub, f"{clicks}partition_count: 4\n", "--url", other.url)
        listed = at_hub("event-type", "list", "-o", "json", "--url", other.url).out
        again = apply(at_hub, listed, "--url", other.url)
    done = apply(at_hub, listed)
    copy = shown(hub, name_in(clicks))

    assert again.out == f"{name_in(clicks)} is so already\n"
    assert (done.status, done.out) == (0, f"{name_in(clicks)} created\n")
    assert (copy["partition_count"], copy["schema"]["version"]) == (4, "1.0.0")


def test_exported_event_types_are_applied_without_a_change_and_described_in_asyncapi(
    at_hub: Command, clicks: str
) -> None:
    name = yaml.safe_load(clicks)["name"]
    apply(at_hub, clicks)

    exported = at_hub("event-type", "export", name)
    assert yaml.safe_load(exported.out)[0]["schema"] == {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert apply(at_hub, exported.out).out == f"{name} is so already\n"
    as_json = at_hub("event-type", "export", name, "--output", "json")
    assert as_json.json == yaml.safe_load(exported.out)
    assert name in {each["name"] for each in at_hub("event-type", "export", "-o", "json").json}

    described = yaml.safe_load(at_hub("event-type", "export", name, "--asyncapi").out)
    assert list(described["channels"]) == [name]
    assert described == at_hub("event-type", "export", name, "--asyncapi", "-o", "json").json
    refused = at_hub("event-type", "export", "no.such", "--asyncapi")
    assert (refused.status, refused.out) == (1, "")
