"""The overview of the console: its figures on large hubs, and how it names what needs attention."""

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Page, Route, expect

from penstock.core.registry.event_type import EventType
from penstock.testing.clock import START_AT
from penstock.testing.factories import an_event_type
from penstock.testing.live_hub import live_hub
from tests.served import Served, client_of
from tests.server.in_process import open_hub

MANY = 103
"""More event types and groups than metrics have figures of."""


@pytest.fixture
def large(tmp_path: Path) -> Iterator[httpx2.Client]:
    """A hub with `MANY` event types with two events each, and as many groups, of which one has read its event type."""
    database = f"sqlite:///{tmp_path}/hub.db"
    names = [f"shop.n{number:03}" for number in range(MANY)]
    local = open_hub(database)
    try:
        with local.store.write() as tx:
            for name in names:
                tx.registry.insert(EventType.parse(an_event_type(name)), START_AT)
    finally:
        local.stop()
    with live_hub(database) as hub, client_of(hub) as http:
        for number, name in enumerate(names):
            Served(http, name, 1).publish_ids(range(2))
            items = [{"event_type": name, "partition": 0, "offset": 0 if number else 2}]
            body = {"kind": "processor", "items": items}
            http.post(f"/groups/group-{number:03}/positions", json=body).raise_for_status()
        yield http


def figure(page: Page, name: str) -> Any:
    return page.locator(".figure").filter(has=page.get_by_text(name, exact=True))


def test_figures_cover_all_event_types_and_consumers_of_a_large_hub(large: httpx2.Client, page: Page) -> None:
    page.goto(f"{large.base_url}/console")
    expect(figure(page, "Events kept").locator(".value")).to_have_text(str(2 * MANY))
    expect(figure(page, "Events kept").locator(".note")).to_have_text(f"{MANY} event types")
    expect(figure(page, "Consumers").locator(".value")).to_have_text(str(MANY))
    expect(figure(page, "Consumers").locator(".note")).to_have_text(f"{MANY - 1} behind")
    page.get_by_text(f"are checked: {MANY - 100} others are not.").wait_for()


class Metrics:
    """Answers GET /metrics as a hub that has more to tell than one can make it do in a test."""

    def __init__(self, page: Page, gauges: Mapping[str, float], counters: Mapping[str, int]) -> None:
        self._gauges, self._counters, self._asked = gauges, counters, 0
        page.route("**/metrics", self._answer)

    def _answer(self, route: Route) -> None:
        self._asked += 1
        counters = {name: {"count": 1000 + count * self._asked} for name, count in self._counters.items()}
        gauges = {name: {"value": value} for name, value in self._gauges.items()}
        route.fulfill(
            json={"counters": counters | {"process_cpu_seconds_total": {"count": self._asked}}, "gauges": gauges}
        )


def test_attention_names_subscriptions_and_says_how_many_more_there_are(feed: Served, page: Page) -> None:
    application = f"billing-{uuid.uuid4().hex}"
    made = feed.http.post("/subscriptions", json={"owning_application": application, "event_types": [feed.name]}).json()
    known, unknown = (
        f'{{group="{each}",kind="subscription",application="{application}"}}' for each in (made["id"], "x")
    )
    parked = {f'penstock_parked_keys{{group="g{n}",kind="processor",application=""}}': 1 for n in range(12)}
    gauges = {f"penstock_parked_keys{known}": 3, f"penstock_group_stuck_partitions{unknown}": 1} | parked
    Metrics(
        page,
        gauges | {"penstock_parked_groups_left_out": 5},
        {f'penstock_overtaken_events_total{{event_type="a",group="{made["id"]}"}}': 1},
    )
    page.goto(f"{feed.http.base_url}/console")
    page.get_by_text(f"{application} / default: 3 parked keys").wait_for()
    attention = page.locator(".attention")
    expect(attention.get_by_role("listitem")).to_have_count(13)
    expect(attention.get_by_role("listitem").last).to_have_text("and 8 more")
    expect(attention).not_to_contain_text(f"{made['id']}:")
    page.unroute("**/metrics")
    Metrics(
        page,
        dict([*gauges.items()][:2]),
        {f'penstock_overtaken_events_total{{event_type="a",group="{made["id"]}"}}': 1},
    )
    page.get_by_text(f"{application} / x cannot go on in 1 partition").wait_for()
    page.get_by_text(f"{application} / default has lost").wait_for()
    expect(attention.get_by_role("listitem")).to_have_count(3)


def test_rates_of_event_types_without_a_counter_are_unknown(feed: Served, page: Page) -> None:
    appended = "penstock_events_appended_total"
    Metrics(page, {}, {f'{appended}{{event_type="first.one"}}': 100, f'{appended}{{event_type="(others)"}}': 10_000})
    page.clock.install()
    page.goto(f"{feed.http.base_url}/console")
    active = page.get_by_role("region", name="Event types by activity")
    others = active.get_by_role("row").filter(has_text="all others")
    others.wait_for()
    page.clock.run_for(4000)
    expect(others).to_contain_text("/s")
    assert active.get_by_role("link").all_inner_texts() == ["first.one"]
    page.get_by_role("navigation", name="Console").get_by_role("link", name="Event types").click()
    page.get_by_label("Search").fill(feed.name)
    page.clock.run_for(11_000)
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=feed.name, exact=True))
    expect(row.get_by_role("cell").last).to_have_text("\u2013")


def near_retention(page: Page, *given: Any) -> list[str]:
    """The titles that the console shows for groups, event types, the hub's default retention, and sizes."""
    script = """async ([groups, eventTypes, standard, sizes]) => {
      const module = document.querySelector("script[type=module]").src.replace("app.js", "parts/attention.js");
      const { findNearRetention } = await import(module);
      const known = { standard, sizes: new Map(Object.entries(sizes ?? {})) };
      return findNearRetention(groups, new Map(Object.entries(eventTypes)), known).map((each) => each.title);
    }"""
    found: list[str] = page.evaluate(script, given)
    return found


def test_failing_requests_are_those_of_the_last_minutes(http: httpx2.Client, page: Page) -> None:
    page.goto(f"{http.base_url}/console")
    script = """async ([counters, growth]) => {
      const module = document.querySelector("script[type=module]").src.replace("app.js", "parts/attention.js");
      const { findTrouble } = await import(module);
      const sample = { gauges: new Map(), counters: new Map(Object.entries(counters)) };
      return findTrouble(sample, [], new Map(Object.entries(growth))).map((each) => [each.tone, each.title]);
    }"""
    asked = 'penstock_requests_total{method="GET",route="/version",status='
    good, bad = f'{asked}"200"}}', f'{asked}"503"}}'
    route = "/event-types/{event_type}/partitions/{partition}/events"
    fenced = f'penstock_requests_total{{method="POST",route="{route}",status="409"}}'
    since = {good: 1_000, bad: 200, fenced: 1}
    refused = "1 publish of idempotent producers refused since this hub began"

    assert page.evaluate(script, [since, {good: 500, bad: 0, fenced: 0}]) == [["note", refused]]
    assert page.evaluate(script, [since, {good: 50, bad: 50, fenced: 1}]) == [
        ["bad", "50 % of the requests fail with an error of the hub"],
        ["warn", refused],
    ]


def test_consumer_is_near_retention_by_what_holds_for_it_in_each_event_type(http: httpx2.Client, page: Page) -> None:
    page.goto(f"{http.base_url}/console")
    waiting = {"retention_time": 1_000_000, "retention_wait": {"groups": ["billing"], "retention_time": 100_000_000}}
    event_types = {
        "own": {"options": {"retention_time": 1_000_000}},
        "long": {"options": {"retention_time": 10_000_000}},
        "default": {"options": {}},
        "compacted": {"options": {}, "cleanup_policy": "compact"},
        "waits": {"options": waiting},
        "read": {"options": {"retention_time": 1_000_000}},
    }
    positions = [{"event_type": name, "lag_seconds": 0 if name == "read" else 900} for name in event_types]
    group = {"name": "billing", "kind": "processor", "event_types": [*event_types], "lag_seconds": 900}
    given = group | {"positions": positions}
    near = "billing is near the retention of {}".format
    assert near_retention(page, [given], event_types, {"retention_time": 1_100_000}) == [near("own"), near("default")]
    assert near_retention(page, [given], event_types, {"retention_time": None}) == [near("own")]
    assert near_retention(page, [given], event_types, None) == [near("own")]
    assert near_retention(page, [given | {"name": "other"}], event_types, None) == [
        "other is near the retention of own",
        "other is near the retention of waits",
    ]


def test_consumer_is_near_retention_by_size_if_it_has_most_of_a_full_event_type_to_read(
    http: httpx2.Client, page: Page
) -> None:
    page.goto(f"{http.base_url}/console")
    event_types = {"own": {"options": {"retention_bytes": 1_000}}, "default": {"options": {}}}
    positions = [{"event_type": name, "lag_seconds": 90, "gap": 40} for name in event_types for _ in range(2)]
    group = {"name": "billing", "kind": "processor", "event_types": [*event_types], "positions": positions}
    near = "billing is near the retention of {}".format
    full, room = {"events": 100, "bytes": 950}, {"events": 100, "bytes": 850}
    assert near_retention(page, [group], event_types, None, {"own": full, "default": full}) == [near("own")]
    assert near_retention(page, [group], event_types, {"retention_bytes": 1_000}, {"own": room, "default": full}) == [
        near("default")
    ]
    assert near_retention(page, [group], event_types, None, {"own": {"events": 200, "bytes": 950}}) == []
