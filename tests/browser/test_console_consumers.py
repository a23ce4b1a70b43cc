"""What an operator does with consumers in the console, each from the overview to the end."""

import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import httpx2
import pytest
from playwright.sync_api import Page, Route, expect

from penstock.client import Client
from penstock.core.groups.groups import PositionCommit
from penstock.hub.hub import Hub
from penstock.processing import StreamEvent
from penstock.storage import open_store
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import a_new_event, an_event_type
from penstock.testing.live_hub import live_hub
from tests.served import Served, client_of, create

HOUR_US = 3_600_000_000
REASON = "invoices were lost"
LAST_NIGHT = {
    "items": [
        {"at": f"2026-11-22T{hour:02}:{minute:02}:00.000Z", "gap": minute, "lag_seconds": minute * 60.0}
        for hour in (1, 2, 5)
        for minute in range(60)
    ],
    "since": "2026-11-20T10:00:00.000Z",
}
"""What a hub has kept of the lag of a group, with a hole."""


@pytest.fixture
def keyed(http: httpx2.Client) -> Served:
    """A feed with one partition and keys."""
    return create(http, partition_strategy="hash", partition_key_fields=["id"])


def open_consumer(page: Page, http: httpx2.Client, name: str) -> None:
    page.goto(f"{http.base_url}/console")
    page.get_by_role("navigation", name="Console").get_by_role("link", name="Consumers").click()
    page.get_by_label("Name or event type").fill(name)
    page.get_by_role("link", name=name, exact=True).click()
    page.get_by_role("heading", name=name, level=1).wait_for()


@pytest.fixture
def stalled(tmp_path: Path) -> Iterator[httpx2.Client]:
    """A hub on which the group `invoices` has handled 5 of 20 events, and committed an hour ago for the last time."""
    database = f"sqlite:///{tmp_path}/hub.db"
    local = Hub(open_store(database), clock=VirtualClock(time.time_ns() // 1000 - HOUR_US))
    try:
        local.store.migrate()
        local.registry.create(an_event_type("order.placed"))
        local.log.publish("order.placed", [a_new_event({"id": number}, partition=0) for number in range(20)])
        local.groups.commit("invoices", "processor", [PositionCommit("order.placed", 0, 5)], None)
    finally:
        local.stop()
    with live_hub(database) as hub, client_of(hub) as http:
        yield http


def test_operator_learns_why_a_consumer_is_behind_and_moves_it(stalled: httpx2.Client, page: Page) -> None:
    page.route("**/groups/*/lag", lambda route: route.fulfill(json=LAST_NIGHT))
    page.goto(f"{stalled.base_url}/console")
    late = page.get_by_role("listitem").filter(has_text="invoices has not moved for 1 h")
    late.get_by_role("link", name="Why?").click()
    page.get_by_role("heading", name="invoices", level=1).wait_for()
    page.get_by_text("It has not committed for 1 h").wait_for()
    page.get_by_text("last 12 hours, kept by this hub").first.wait_for()
    page.get_by_role("img", name="Gap: Gap 15").wait_for()

    page.get_by_role("button", name="Move …").click()
    page.get_by_text("5 events will come again.").wait_for()
    page.get_by_label("Where to").select_option("latest")
    page.get_by_text("15 events will be skipped").wait_for()
    page.get_by_label("Reason").fill(REASON)
    page.get_by_role("button", name="Move it").click()
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.get_by_role("link", name="History").click()
    page.get_by_role("cell", name=REASON).wait_for()
    assert stalled.get("/groups/invoices").json()["gap"] == 0


def test_consumer_that_stands_still_in_one_partition_is_told_which_event_to_look_at(feed4: Served, page: Page) -> None:
    group = f"invoices-{uuid.uuid4().hex}"
    items = [{"event_type": feed4.name, "partition": each, "offset": 0} for each in range(4)]
    feed4.http.post(f"/groups/{group}/positions", json={"kind": "processor", "items": items}).raise_for_status()
    labels = f'{{group="{group}",kind="processor",application=""}}'
    figures = {"gap_events": 7, "lag_seconds": 840, "commit_age_seconds": 2, "standing_seconds": 840}

    def age(route: Route) -> None:
        answer = route.fetch()
        shown = answer.json()
        for each in shown["positions"]:
            each |= {"gap": 7, "head": 7, "lag_seconds": 840.0 if each["partition"] == 1 else 3.0}
            if each["partition"] == 1:
                each["updated_at"] = "2020-01-01T00:00:00.000Z"
        route.fulfill(response=answer, json=shown | {"gap": 28, "lag_seconds": 840.0})

    def measure(route: Route) -> None:
        gauges = {f"penstock_group_{name}{labels}": {"value": value} for name, value in figures.items()}
        route.fulfill(json={"counters": {}, "gauges": gauges})

    page.route("**/metrics", measure)
    page.route(f"**/groups/{group}", age)
    page.goto(f"{feed4.http.base_url}/console")
    still = page.get_by_role("listitem").filter(has_text=f"{group} stands still in a partition")
    still.get_by_role("link", name="Which?").click()
    told = page.get_by_text(f"in partition 1 of {feed4.name} it has committed nothing for 14 min")
    expect(told.get_by_role("link", name="look at it")).to_have_attribute("href", re.compile("event=1%3A0$"))


def test_move_of_a_subscription_that_has_not_begun_says_what_it_would_skip(feed: Served, page: Page) -> None:
    feed.publish_ids(range(7))
    given = {"owning_application": f"app-{uuid.uuid4().hex}", "event_types": [feed.name], "read_from": "begin"}
    made = feed.http.post("/subscriptions", json=given).json()
    page.goto(f"{feed.http.base_url}/console/consumers/{made['id']}")
    page.get_by_role("button", name="Move …").click()
    page.get_by_label("Where to").select_option("latest")
    page.get_by_text("7 events will be skipped").wait_for()
    page.get_by_label("Where to").select_option("earliest")
    page.get_by_text("It stays where it is.").wait_for()


def test_consumers_of_an_event_type_with_a_long_name_fit_on_a_phone(http: httpx2.Client, page: Page) -> None:
    name = f"long.{uuid.uuid4().hex}" + "n" * 170
    http.post("/event-types", json=an_event_type(name)).raise_for_status()
    page.set_viewport_size({"width": 360, "height": 780})
    page.goto(f"{http.base_url}/console/consumers?event_type={name}")
    page.get_by_text("Nobody keeps a position here yet.").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_rate_of_a_consumer_counts_what_it_commits_until_it_is_moved(feed: Served, page: Page) -> None:
    feed.publish_ids(range(100))
    group = f"invoices-{uuid.uuid4().hex}"

    def commit(offset: int) -> None:
        items = [{"event_type": feed.name, "partition": 0, "offset": offset}]
        feed.http.post(f"/groups/{group}/positions", json={"kind": "processor", "items": items}).raise_for_status()

    def rate_after(seconds: int) -> None:
        with page.expect_response(f"**/groups/{group}"):
            page.clock.run_for(seconds * 1000)

    commit(10)
    page.clock.install()
    open_consumer(page, feed.http, group)
    rate = page.locator(".figure").filter(has=page.get_by_text("Rate", exact=True)).locator(".value")
    expect(rate).to_have_text("\u2013")
    rate_after(3)
    expect(rate).to_have_text("0/s")
    commit(70)
    rate_after(3)
    expect(rate).to_have_text(re.compile(r"^[1-9]\d?(\.\d)?/s$"))
    page.get_by_role("button", name="Move …").click()
    page.clock.run_for(1000)
    page.get_by_text("70 events will come again.").wait_for()
    page.get_by_label("Reason").fill(REASON)
    page.get_by_role("button", name="Move it").click()
    expect(rate).to_have_text("\u2013")
    page.get_by_text("nobody may be running it").wait_for()

    page.get_by_role("navigation", name="Console").get_by_role("link", name="Consumers").click()
    page.get_by_label("Name or event type").fill(group)
    listed = page.get_by_role("row").filter(has_text=group).get_by_role("cell").nth(5)
    expect(listed).to_have_text("\u2013")
    commit(90)
    with page.expect_response("**/groups?*"):
        page.clock.run_for(5000)
    expect(listed).to_have_text(re.compile(r"^\d+(\.\d)?/s$"))


@pytest.fixture
def failing_consumer(keyed: Served) -> Iterator[tuple[str, Event, Event]]:
    """A consumer that parks the events of key 7: its subscription, what lets it succeed, and whether it has."""
    repaired, handled, stop = Event(), Event(), Event()

    def handle(event: StreamEvent) -> None:
        if event.key == "7":
            if not repaired.is_set():
                raise ValueError("no such customer")
            handled.set()

    with Client(str(keyed.http.base_url)) as client:
        subscription, _ = client.create_subscription(
            f"app-{uuid.uuid4().hex}",
            [keyed.name],
            start="earliest",
            annotations={"penstock/park-after-attempts": "2"},
        )
        thread = Thread(target=client.consume, args=(subscription.id, handle), kwargs={"cancel": stop})
        thread.start()
        try:
            yield subscription.owning_application, repaired, handled
        finally:
            stop.set()
            thread.join(60)


def test_operator_retries_an_event_that_failed_at_night(
    keyed: Served, failing_consumer: tuple[str, Event, Event], page: Page
) -> None:
    application, repaired, handled = failing_consumer
    keyed.publish_ids([1, 7, 8])
    page.goto(f"{keyed.http.base_url}/console")
    parked = page.get_by_role("listitem").filter(has_text=f"{application} / default: 1 parked key")
    parked.get_by_role("link", name="Look at them").click()
    page.get_by_role("heading", name=f"{application} / default", level=1).wait_for()
    row = page.get_by_role("row").filter(has=page.get_by_role("cell", name="7", exact=True))
    row.get_by_role("button", name="Look").click()
    page.get_by_role("dialog").get_by_text("7", exact=True).wait_for()
    page.get_by_role("button", name="Close").click()

    repaired.set()
    page.get_by_role("button", name="Retry …").click()
    page.get_by_role("dialog").get_by_role("button", name="Retry", exact=True).click()
    assert handled.wait(60)
    page.get_by_text("No key is parked.").wait_for()
