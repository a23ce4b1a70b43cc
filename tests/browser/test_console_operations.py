"""What an operator does in the console with settings, audit log, tokens, producers, outbox and cold tier."""

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Page, expect

from penstock.core.access import Caller
from penstock.testing.live_hub import live_hub
from tests.browser.walking import next_moment, sign_in
from tests.sealing import seal, sealing_hub
from tests.served import Served, as_new, client_of, create, until
from tests.server.in_process import open_hub


@pytest.fixture
def unchanged(http: httpx2.Client) -> Iterator[httpx2.Client]:
    """A hub without blocks and features, also for the next test."""
    as_new(http)
    yield http
    as_new(http)


def test_operator_turns_on_the_audit_log_and_finds_a_block_in_it(unchanged: httpx2.Client, page: Page) -> None:
    app = f"<b>billing-{uuid.uuid4().hex}"
    page.goto(f"{unchanged.base_url}/console/audit-log")
    page.get_by_role("button", name="Turn on the audit log").click()
    page.get_by_role("button", name="Turn on", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.get_by_role("navigation", name="Console").get_by_role("link", name="Settings").click()
    form = page.locator("form", has=page.get_by_role("button", name="Block …"))
    form.get_by_role("combobox").first.select_option("CONSUMER_APP")
    form.get_by_label("Name").fill(app)
    page.get_by_role("button", name="Block …").click()
    page.get_by_role("dialog").get_by_role("button", name="Block", exact=True).click()
    page.get_by_role("button", name=f"Unblock {app}").wait_for()
    assert unchanged.get("/settings/blacklist").json()["consumers"]["apps"] == [app]

    page.get_by_role("navigation", name="Console").get_by_role("link", name="Audit log").click()
    page.get_by_label("Of what kind").select_option("blacklist_entry")
    page.get_by_text(f"CONSUMER_APP:{app}").first.click()
    page.get_by_text("It began as").wait_for()
    page.get_by_role("link", name="all changes of it").click()
    page.get_by_text("1 change shown").wait_for()
    page.reload()
    page.get_by_text(f"CONSUMER_APP:{app}").wait_for()
    expect(page.locator("main b")).to_have_count(0)


def test_operator_learns_how_many_events_a_shorter_retention_deletes(tmp_path: Path, page: Page) -> None:
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub, client_of(hub) as http:
        concerned, own = create(http), create(http, options={"retention_time": 1_000_000})
        concerned.publish_ids(range(3))
        own.publish_ids(range(5))
        moment = next_moment()
        concerned.publish_ids(range(3, 7))
        page.clock.set_fixed_time(moment + timedelta(hours=2))
        page.goto(f"{http.base_url}/console/settings")
        unit = page.get_by_label("Unit: Delete events that are older than")
        page.get_by_label("Delete events that are older than", exact=True).fill("2")
        unit.select_option("hours")
        page.locator("form", has=unit).get_by_role("button", name="Save …").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_text("It concerns 1 of 2 event types.").wait_for()
        dialog.get_by_text("3 events of them are older than that now, and will be deleted for ever.").wait_for()
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_have_count(0)
        assert http.get("/settings/retention").json() == {"retention_time": None, "retention_bytes": None}


def test_operator_learns_of_a_fenced_producer_and_has_it_forgotten(feed: Served, page: Page) -> None:
    producers = f"/event-types/{feed.name}/partitions/0/producers"

    def publish(number: int) -> int:
        headers = {"Producer-Group": "till-1", "Producer-Epoch": "0", "Producer-Sequence": str(number)}
        path = f"/event-types/{feed.name}/partitions/0/events"
        return feed.http.post(path, json=[{"id": number}], headers=headers).status_code

    assert [publish(0), publish(1)] == [200, 200]
    feed.http.put(f"{producers}/till-1", json={"epoch": 1}).raise_for_status()
    assert publish(2) == 412
    page.goto(f"{feed.http.base_url}/console")
    page.get_by_text("of idempotent producers refused").wait_for()
    page.get_by_role("link", name="See the producers").click()
    page.get_by_role("heading", name="Producers", level=1).wait_for()
    page.goto(f"{feed.http.base_url}/console/producers?event_type={feed.name}")
    page.get_by_role("cell", name="till-1", exact=True).wait_for()
    page.get_by_role("button", name="Forget till-1").click()
    page.get_by_text("Its events stay.").wait_for()
    page.get_by_role("button", name="Forget", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("cell", name="till-1 expired").wait_for()
    assert [each["expired"] for each in feed.http.get(producers).json()["items"]] == [True]


def test_console_says_how_to_make_a_cold_tier_where_there_is_none(http: httpx2.Client, page: Page) -> None:
    page.goto(f"{http.base_url}/console/cold-tier")
    page.get_by_text("This hub has no cold tier").wait_for()


def test_operator_sees_which_events_lie_in_files(tmp_path: Path, page: Page) -> None:
    database, cold = f"sqlite:///{tmp_path}/hub.db", f"file://{tmp_path}/cold"
    with live_hub(database, options=["--cold", cold, "--cold-after", "never"]) as hub, client_of(hub) as http:
        feed = create(http)
        feed.publish_ids(range(20))
        with sealing_hub(database, cold) as sealing:
            seal(sealing)
        page.goto(f"{http.base_url}/console/cold-tier?event_type={feed.name}")
        page.get_by_role("cell", name="0 to 18", exact=True).wait_for()
        page.get_by_role("img", name="95 % in files").wait_for()
        page.get_by_role("link", name="0", exact=True).last.click()
        expect(page.get_by_label("Offset", exact=True)).to_have_value("0")


def test_operator_retries_and_deletes_rejected_rows(tmp_path: Path, page: Page) -> None:
    database = tmp_path / "hub.db"
    with live_hub(f"sqlite:///{database}") as hub, client_of(hub) as http:
        rows = [("unheard.of", f'{{"n": {n}, "text": "<b>x</b>"}}') for n in range(3)]
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.executemany("INSERT INTO penstock_outbox (event_type, data) VALUES (?, ?)", rows)
        page.goto(f"{http.base_url}/console/outbox")
        page.get_by_role("button", name="Show row 3").click()
        page.get_by_role("dialog").get_by_text('"<b>x</b>"').wait_for()
        page.get_by_role("button", name="Delete …").click()
        page.get_by_role("dialog").get_by_role("button", name="Copy").click()
        page.get_by_role("dialog").get_by_role("button", name="Copied").wait_for()
        assert http.get("/outbox").json()["rejected"] == 3
        page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
        expect(page.get_by_role("button", name="Show row")).to_have_count(2)

        feed = create(http, name="unheard.of")
        page.get_by_role("button", name="Retry all …").click()
        page.get_by_role("dialog").get_by_role("button", name="Retry", exact=True).click()
        page.get_by_text("None: the hub could publish").wait_for()
        until(lambda: len(feed.read().events) == 2)
        expect(page.locator("main b")).to_have_count(0)


def test_administrator_makes_a_token_whose_caller_sees_less(tmp_path: Path, page: Page) -> None:
    database = f"sqlite:///{tmp_path}/hub.db"
    local = open_hub(database)
    try:
        root = local.admin.tokens.create(Caller("user", "root"))
    finally:
        local.stop()
    with live_hub(database, options=["--auth", "token", "--admin", "user:root"]) as hub:
        page.goto(f"{hub.url}/console/tokens")
        sign_in(page, root.secret)
        page.get_by_role("button", name="New token …").click()
        page.get_by_label("Its name").fill("billing")
        page.get_by_role("button", name="Create", exact=True).click()
        secret = page.locator(".secret code").inner_text()
        page.get_by_role("button", name="I have stored it").click()
        page.get_by_role("cell", name="service:billing", exact=True).wait_for()

        page.get_by_role("button", name="Sign out").click()
        sign_in(page, secret)
        navigation = page.get_by_role("navigation", name="Console")
        expect(navigation.get_by_role("link")).to_have_text(["Overview", "Event types", "Consumers", "Producers"])
        page.get_by_text("Tokens are for administrators of the hub").wait_for()
