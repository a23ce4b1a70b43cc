"""Event types in the console: find, create, look at, change and delete one."""

import json
import re
import uuid
from datetime import timedelta
from pathlib import Path

import httpx2
from playwright.sync_api import Page, expect

from penstock.core.access import Caller
from penstock.testing.live_hub import live_hub
from tests.browser.walking import next_moment, sign_in, walk_to_event_type
from tests.served import client_of, create, page_of
from tests.server.in_process import open_hub

ORDER = {"order_id": 1, "customer": "Ada", "placed_at": "2026-11-30T15:42:34Z"}
HOSTILE = "<script>window.hacked = true</script><img src=x onerror='window.hacked = true'> \u202edlo"


def open_page(page: Page, http: httpx2.Client, path: str) -> None:
    page.goto(f"{http.base_url}/console{path}")


def test_event_type_is_created_from_an_example_and_found_in_the_list(http: httpx2.Client, page: Page) -> None:
    name = f"test.{uuid.uuid4().hex}"
    open_page(page, http, "/new-event-type")
    page.get_by_label("Name", exact=True).fill("order placed")
    expect(page.get_by_text("begins with a letter")).to_be_visible()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("An example, or several").fill(json.dumps([ORDER, {"order_id": 2, "total": 3.5}]))
    page.get_by_role("group", name="Fields of the schema").get_by_role("button", name="order_id").click()
    page.get_by_label("Delete events after").fill("30 d")
    page.get_by_role("button", name="Create event type").click()
    expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()
    made = http.get(f"/event-types/{name}").json()
    assert json.loads(made["schema"]["schema"]) == {
        "type": "object",
        "required": ["order_id"],
        "properties": {
            "order_id": {"type": "integer"},
            "customer": {"type": "string"},
            "placed_at": {"type": "string", "format": "date-time"},
            "total": {"type": "number"},
        },
    }
    assert (made["partition_strategy"], made["partition_key_fields"]) == ("hash", ["order_id"])
    assert made["options"] == {"retention_time": 30 * 86_400_000}
    open_page(page, http, "/new-event-type")
    page.get_by_label("Name", exact=True).fill(name)
    expect(page.get_by_text("There is an event type of this name already.")).to_be_visible()


def test_schema_editor_says_who_breaks_and_adds_a_compatible_schema(http: httpx2.Client, page: Page) -> None:
    schema = {
        "type": "object",
        "required": ["id"],
        "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
    }
    feed = create(http, schema={"type": "json_schema", "schema": json.dumps(schema)})
    feed.publish({"id": 1})
    group = f"group-{uuid.uuid4().hex}"
    start = {"event_type": feed.name, "partition": 0, "epoch": 1, "offset": 0}
    assert http.post(f"/groups/{group}/positions", json={"kind": "processor", "items": [start]}).is_success
    walk_to_event_type(page, http, feed.name, "Schema")
    page.get_by_role("link", name="Try a new schema").click()
    text = page.get_by_label("JSON Schema, of draft 4")
    add = page.get_by_role("button", name="Add this schema")
    text.fill(json.dumps(schema | {"required": [], "properties": {"id": {"type": "string"}}}))
    expect(page.get_by_text("The mode forward refuses this schema.")).to_be_visible()
    expect(page.get_by_role("cell", name="#/properties/note")).to_be_visible()
    expect(page.get_by_role("link", name=group)).to_be_visible()
    expect(add).to_be_disabled()
    text.fill('{"type": "strin"}')
    expect(page.get_by_text('must have the type "object" at its root')).to_be_visible()
    text.fill('{"type": ')
    expect(page.get_by_text("This is no JSON")).to_be_visible()
    gift = {"type": "boolean", "description": HOSTILE}
    text.fill(json.dumps(schema | {"properties": schema["properties"] | {"gift": gift}}))
    expect(page.get_by_text("Allowed: version 1.0.0 becomes 1.1.0.")).to_be_visible()
    add.click()
    page.get_by_role("dialog").get_by_role("button", name="Add the schema").click()
    expect(page.get_by_text("This is the latest schema.")).to_be_visible()
    page.wait_for_load_state("networkidle")
    expect(page.get_by_text("Version 1.1.0 holds from now on.")).to_be_visible()
    open_page(page, http, f"/event-types/{feed.name}/schema?version=1.1.0&against=1.0.0")
    expect(page.get_by_role("cell", name="#/properties/gift")).to_be_visible()
    expect(page.locator("ins", has_text='"gift": {')).to_be_visible()
    page.get_by_label("Compared with").select_option("")
    expect(page.get_by_role("cell", name="<script>window.hacked")).to_be_visible()
    assert page.evaluate("window.hacked") is None


def test_settings_restrict_access_warn_of_lost_events_and_delete(http: httpx2.Client, page: Page) -> None:
    feed = create(http, options={"retention_time": 86_400_000}, annotations={"description": HOSTILE})
    feed.publish_ids(range(3))
    moment = next_moment()
    feed.publish_ids(range(3, 7))
    page.clock.set_fixed_time(moment + timedelta(hours=12))
    walk_to_event_type(page, http, feed.name)
    page.get_by_role("link", name="Give access").click()
    page.get_by_role("button", name="Restrict access").click()
    readers = page.get_by_role("group", name="Readers")
    readers.get_by_role("button", name="Remove everybody from readers").click()
    expect(readers.get_by_text("must contain at least one attribute")).to_be_visible()
    readers.get_by_role("button", name="Add to readers").click()
    readers.get_by_label("Readers, 1: name").fill("new-team")
    page.get_by_label("Delete events after").fill("1 s soon")
    expect(page.get_by_text("A duration or size cannot be read.")).to_be_visible()
    page.get_by_label("Delete events after").fill("12 h")
    page.get_by_role("button", name="Review and save").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("service:new-team may read.")).to_be_visible()
    expect(dialog.get_by_text("Now that is 3 events.")).to_be_visible()
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved. The hub goes by it from now on.")).to_be_visible()
    made = http.get(f"/event-types/{feed.name}").json()
    assert made["authorization"]["readers"] == [{"data_type": "service", "value": "new-team"}]
    assert made["options"] == {"retention_time": 43_200_000}
    page.get_by_label("Number of partitions").fill("3")
    page.get_by_role("button", name="Add partitions").click()
    dialog.get_by_role("button", name="Add 2 partitions").click()
    expect(page.get_by_text("It has 3 partitions.")).to_be_visible()
    page.get_by_role("button", name=f"Delete {feed.name}").click()
    expect(dialog.get_by_text("7 events")).to_be_visible()
    expect(dialog.get_by_role("button", name="Delete it for good")).to_be_disabled()
    dialog.get_by_label("Type the name of the event type").fill(feed.name)
    dialog.get_by_role("button", name="Delete it for good").click()
    expect(page.get_by_role("heading", level=1, name="Event types")).to_be_visible()
    assert http.get(f"/event-types/{feed.name}").status_code == 404
    assert page.evaluate("window.hacked") is None


def test_new_team_may_read_once_an_administrator_gives_it_access(tmp_path: Path, page: Page) -> None:
    database = f"sqlite:///{tmp_path}/hub.db"
    local = open_hub(database)
    try:
        root, team = (local.admin.tokens.create(Caller(*each)) for each in (("user", "root"), ("service", "new-team")))
    finally:
        local.stop()
    with live_hub(database, options=["--auth", "token", "--admin", "user:root"]) as hub, client_of(hub) as http:
        http.headers["authorization"] = f"Bearer {root.secret}"
        only_root = [{"data_type": "user", "value": "root"}]
        feed = create(http, authorization=dict.fromkeys(("admins", "readers", "writers"), only_root))
        feed.publish({"id": 7})

        def read() -> httpx2.Response:
            given = {"n": 1, "cursor0": "_first"}
            return http.get(feed.path, params=given, headers={"authorization": f"Bearer {team.secret}"})

        assert read().status_code == 403
        open_page(page, http, "")
        sign_in(page, root.secret)
        walk_to_event_type(page, http, feed.name)
        page.get_by_role("link", name="Give access").click()
        readers = page.get_by_role("group", name="Readers")
        readers.get_by_role("button", name="Add to readers").click()
        readers.get_by_label("Readers, 2: name").fill("new-team")
        assert read().status_code == 403
        page.get_by_role("button", name="Review and save").click()
        page.get_by_role("dialog").get_by_text("service:new-team may read.").wait_for()
        page.get_by_role("dialog").get_by_role("button", name="Save").click()
        page.get_by_text("Saved. The hub goes by it from now on.").wait_for()
        assert page_of(read()).ids == [7]


def test_list_of_five_thousand_event_types_is_searched_by_its_address(http: httpx2.Client, page: Page) -> None:
    items = [
        {"name": f"thing.n{at}", "owning_application": f"team-{at % 7}", "category": "undefined", "partition_count": 1}
        | {"events": at, "bytes": at * 100, "newest_at": None}
        for at in range(5_000)
    ]
    page.route("**/statistics", lambda route: route.fulfill(json={"measured_at": ORDER["placed_at"], "items": items}))
    open_page(page, http, "/event-types?owner=team-3")
    expect(page.get_by_text("714 of 5,000 event types")).to_be_visible()
    expect(page.get_by_role("row")).to_have_count(51)
    page.get_by_label("Search").fill("n4999")
    expect(page.get_by_text("No event type has all of this.")).to_be_visible()
    page.get_by_role("button", name="Show all").click()
    page.get_by_label("Search").fill("n4999")
    expect(page.get_by_role("link", name="thing.n4999")).to_be_visible()
    assert page.url.endswith("/event-types?q=n4999")


def test_order_and_page_of_a_table_are_in_its_address_and_a_search_shows_the_first_page(
    http: httpx2.Client, page: Page
) -> None:
    none = {"owning_application": "team", "category": "undefined", "partition_count": 1, "bytes": 0, "newest_at": None}
    items = [none | {"name": f"thing.n{at:03}", "events": at} for at in range(120)]
    page.route("**/statistics", lambda route: route.fulfill(json={"measured_at": ORDER["placed_at"], "items": items}))
    open_page(page, http, "/event-types")
    names = page.get_by_role("cell").get_by_role("link")
    page.get_by_role("button", name="Events", exact=True).click()
    expect(names.first).to_have_text("thing.n119")
    page.get_by_role("button", name="Next").click()
    expect(names.first).to_have_text("thing.n069")
    assert page.url.endswith("/event-types?order=-Events&row=51")
    page.reload()
    expect(names.first).to_have_text("thing.n069")
    page.get_by_label("Search").fill("thing")
    expect(names.first).to_have_text("thing.n119")
    assert page.url.endswith("/event-types?order=-Events&q=thing")
    open_page(page, http, "/event-types?order=Nothing&row=-9e9")
    expect(names.first).to_have_text("thing.n000")


def test_event_type_is_described_with_what_it_holds(http: httpx2.Client, page: Page) -> None:
    description, owner = "A customer has placed an order.", f"team-{uuid.uuid4().hex}"
    feed = create(http, owning_application=owner, annotations={"description": description})
    feed.publish_ids(range(5))
    open_page(page, http, f"/event-types/{feed.name}")
    for text in (description, owner, "random", "version 1.0.0"):
        expect(page.get_by_text(text).first).to_be_visible()
    partitions = page.get_by_role("region", name="Partitions").get_by_role("row")
    expect(partitions.nth(1)).to_contain_text(re.compile(r"^0\s*0\s*4\s*5"))
    expect(page.get_by_role("heading", name="Event guidelines")).to_be_visible()
    expect(page.get_by_text("This hub has no cold tier")).to_be_visible()


def test_text_is_copied_where_the_browser_denies_the_clipboard(http: httpx2.Client, page: Page) -> None:
    feed = create(http)
    page.add_init_script("navigator.clipboard.writeText = () => Promise.reject(new DOMException('denied'))")
    open_page(page, http, f"/event-types/{feed.name}")
    page.get_by_role("button", name="Copy", exact=True).click()
    page.get_by_role("button", name="Copied").wait_for()
    page.evaluate("document.execCommand = () => false")
    page.get_by_role("button", name="Copy", exact=True).click()
    page.get_by_role("button", name="The browser forbids it").wait_for()


def test_schema_that_repeats_itself_is_shown_and_has_a_form(http: httpx2.Client, page: Page) -> None:
    node = {"type": "object", "properties": {f"link{each}": {"$ref": "#/definitions/node"} for each in range(12)}}
    value = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/definitions/value"}}]}
    below = [*({"$ref": f"#/definitions/level{each}"} for each in range(1, 8)), {"type": "string"}]
    levels = {
        f"level{at}": {"type": "object", "properties": {f"part{each}": part for each in range(12)}}
        for at, part in enumerate(below)
    }
    schema = {
        "type": "object",
        "properties": {
            "root": {"$ref": "#/definitions/node"},
            "value": {"$ref": "#/definitions/value"},
            "level": {"$ref": "#/definitions/level0"},
        },
        "definitions": {"node": node, "value": value, **levels},
    }
    feed = create(http, schema={"type": "json_schema", "schema": json.dumps(schema)})
    open_page(page, http, f"/event-types/{feed.name}/schema")
    page.get_by_role("cell", name="root", exact=True).wait_for()
    open_page(page, http, f"/event-types/{feed.name}/events?view=publish")
    page.get_by_label("link11").fill('{"link0": {}}')
    page.get_by_role("button", name="Publish", exact=True).click()
    page.get_by_text("Published:").wait_for()
    assert feed.read().events == [{"root": {"link11": {"link0": {}}}}]
