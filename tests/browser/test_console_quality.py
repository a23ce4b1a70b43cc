"""The console as a whole: each of its pages in both themes, with what strangers have written, for each caller."""

import json
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from penstock.core.access import Caller
from penstock.core.groups.groups import PositionCommit
from penstock.core.registry.event_type import EventType
from penstock.server.console.pages import STATIC
from penstock.testing.clock import START_AT
from penstock.testing.factories import an_event_type
from penstock.testing.live_hub import live_hub
from tests.browser.walking import go
from tests.browser.watching import Watched
from tests.exhaustive import exhaustive
from tests.sealing import seal, sealing_hub
from tests.served import Served, client_of, until
from tests.server.in_process import open_hub

ROOT = Path(__file__).parents[2]
MARKUP = "<img src=x onerror='window.ran=1'><script>window.ran=1</script>\"&lt;"
TO_THE_LEFT = "\u202e\u2066gnihtemos"
LONG = "W" * 110
"""No browser breaks it by itself."""
HOSTILE = MARKUP + TO_THE_LEFT + LONG
NAME, HIDDEN, WIDE, DEEP = "order.placed", "order." + "w" * 200, "order.wide", "order.deep"
GROUP = MARKUP + "/%2F?#" + LONG
LARGE = 1_000_000
MEMBERS = 10_000
NODES_MAX = 3_000
OVERVIEW_BYTES_MAX = 300_000
EVENT_TYPES, GROUPS = 5_000, 1_000
LOOKS: Mapping[str, tuple[int, Sequence[str]]] = {
    "light": (1400, ()),
    "dark": (420, ("color-contrast", "link-in-text-block", "scrollable-region-focusable")),
}
"""The width of the page in each theme, and axe's rules that depend on these; none: all rules."""
PAGES: Mapping[str, Mapping[str, str]] = {
    "/": {"": "1 row of the outbox rejected"},
    "/event-types": {"/event-types": "Owner"},
    "/event-types/:name": {"/event-types/{hidden}": "window.ran=1"},
    "/event-types/:name/events": {
        "/event-types/{hidden}/events": "window.ran=1",
        "/event-types/{hidden}/events?view=live": "following",
        "/event-types/{hidden}/events?view=publish": "Beside the event",
    },
    "/event-types/:name/:tab": {
        "/event-types/{hidden}/schema": "window.ran=1",
        "/event-types/{hidden}/consumers": "window.ran=1",
        "/event-types/{hidden}/producers": "WWW",
        "/event-types/{hidden}/settings": "Delete order.",
    },
    "/new-event-type": {"/new-event-type": "Create event type"},
    "/consumers": {"/consumers": "window.ran=1"},
    "/consumers/:name": {"/consumers/{group}": "Positions", "/consumers/{subscription}": "Positions"},
    "/consumers/:name/:tab": {
        "/consumers/{group}/parked": "window.ran=1",
        "/consumers/{group}/history": "reset",
    },
    "/producers": {"/producers": "WWW"},
    "/outbox": {"/outbox": "window.ran=1", "/outbox?row=1": "window.ran=1"},
    "/cold-tier": {"/cold-tier": "Event types", "/cold-tier?event_type={hidden}": "Files of partition 0"},
    "/settings": {"/settings": "window.ran=1"},
    "/tokens": {"/tokens": "window.ran=1"},
    "/audit-log": {"/audit-log": "Audit log"},
}
"""The addresses of each view of `app.js`, and a text that each shows once it has its data."""


OF_ADMINISTRATORS: Mapping[str, Sequence[str]] = {
    "/event-types": ["New event type"],
    "/event-types/{name}": ["Give access"],
    "/event-types/{name}/schema?edit=1": ["Add this schema"],
    "/event-types/{name}/settings": ["Review and save", "Add partitions", "Delete order.placed"],
    "/event-types/{name}/events?view=publish": ["Publish"],
    "/consumers/{group}": ["Move …", "Delete …"],
    "/consumers/{group}/parked": ["Retry all …", "Retry …", "Skip …"],
    "/consumers/{subscription}": ["Move …", "Delete …"],
    "/producers": ["Forget"],
    "/outbox": ["Retry all …", "Delete all …"],
    "/settings": ["Turn on", "Unblock", "Block …"],
    "/tokens": ["New token …", "Rotate", "Revoke"],
    "/audit-log": ["Look again"],
}
"""Buttons that an administrator of the hub sees, on each page."""
OF_READERS: Mapping[str, str] = {
    "": "Rates and totals need the right to monitor the hub",
    "/event-types/{hidden}": "Access on VIEW event-type",
    "/event-types/{name}/settings": "ask one of its admins",
    "/event-types/{name}/events": "0:2",
    "/consumers/{group}": "Access on VIEW event-type",
    "/outbox": "needs the right to monitor the hub",
    "/cold-tier": "Choose one that you may read",
    "/settings": "Settings are for administrators",
    "/tokens": "Tokens are for administrators",
    "/audit-log": "Access on VIEW event-type:nakadi.audit.log denied",
}
"""What a caller who may only read `order.placed` is told, on each page."""
HARMLESS = {
    *(
        "New event type",
        "Browse events",
        "Try a new schema",
        "Format",
        "Start again",
        "Copy",
        "Look again",
        "Try again",
    ),
    *("Find all events", "Show", "Refresh", "Newer", "Older", "Show its files", "Open", "Close"),
    *(
        "Overview",
        "Events",
        "Schema",
        "Consumers",
        "Producers",
        "Browse",
        "Live tail",
        "Positions",
        "Parked",
        "History",
    ),
}
"""Buttons and tabs that do what such a reader may do: everybody may create event types."""
REFUSED: Mapping[str, Any] = {
    "POST /feeds/{name}": {"data": {"id": 1}},
    "PUT /event-types/{name}": {},
    "POST /event-types/{name}/schemas": {},
    "PUT /event-types/{name}/partition-count": {"partition_count": 2},
    "DELETE /event-types/{name}": None,
    "GET /event-types/{hidden}": None,
    "PATCH /groups/{group}/positions": {"to": "latest"},
    "POST /groups/{group}/parked/retry": {},
    "DELETE /groups/{group}": None,
    "PATCH /subscriptions/{subscription}/cursors": {"items": []},
    "DELETE /subscriptions/{subscription}": None,
    "DELETE /event-types/{hidden}/partitions/0/producers/x": None,
    "GET /metrics": None,
    "GET /outbox/rejected": None,
    "POST /outbox/rejected/retry?all=true": None,
    "DELETE /outbox/rejected?all=true": None,
    "GET /tokens": None,
    "POST /tokens": {"name": "x"},
    "DELETE /tokens/x": None,
    "POST /settings/features": {},
    "PUT /settings/blacklist/CONSUMER_APP/x": None,
    "PUT /settings/retention": {},
    "GET /feeds/nakadi.audit.log": None,
}
"""A call for each thing that the console keeps from such a reader, with its body."""


class Scene(NamedTuple):
    """A hub that knows callers, and has something for each page."""

    http: httpx2.Client
    """Its administrator."""
    tokens: Mapping[str, str]
    """The token of each caller."""
    names: Mapping[str, str]
    """What addresses have in them, quoted."""

    @property
    def origin(self) -> str:
        return str(self.http.base_url).rstrip("/")

    def pages(self) -> Iterator[tuple[str, str]]:
        """The path of each page, and its text."""
        for views in PAGES.values():
            yield from ((path.format_map(self.names), text) for path, text in views.items())


def members(*callers: str) -> list[dict[str, str]]:
    return [dict(zip(("data_type", "value"), each.split(":"), strict=True)) for each in callers]


def hidden() -> dict[str, Any]:
    """An event type of which only the administrator knows, with strangers' words in each place."""
    schema = {
        "title": HOSTILE,
        "description": HOSTILE,
        "properties": {
            HOSTILE: {"type": "string", "description": HOSTILE, "enum": [HOSTILE, "x"]},
            "list": {"type": "array", "items": {"properties": {HOSTILE: {"type": "integer"}}}},
        },
    }
    return an_event_type(
        HIDDEN,
        owning_application=HOSTILE,
        annotations={"description": HOSTILE, "note": HOSTILE},
        schema={"type": "json_schema", "schema": json.dumps(schema)},
        authorization=dict.fromkeys(("admins", "readers", "writers"), members("user:root")),
    )


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("console")
    database, cold = f"sqlite:///{folder}/hub.db", f"file://{folder}/cold"
    local = open_hub(database)
    try:
        callers = {"root": Caller("user", "root"), "reader": Caller("service", "reader")}
        tokens = {name: local.admin.tokens.create(caller).secret for name, caller in callers.items()}
    finally:
        local.stop()
    options = ["--auth", "token", "--admin", "user:root", "--cold", cold, "--cold-after", "never"]
    with live_hub(database, options=options) as hub, client_of(hub) as http:
        http.headers["authorization"] = f"Bearer {tokens['root']}"
        subscription = fill(http)
        with closing(sqlite3.connect(folder / "hub.db", timeout=60)) as connection, connection:
            data = {HOSTILE: HOSTILE, "large": "W" * LARGE} | {f"{number:05}": number for number in range(MEMBERS)}
            row = (MARKUP, json.dumps(data))
            connection.execute("INSERT INTO penstock_outbox (event_type, data) VALUES (?, ?)", row)
        with sealing_hub(database, cold) as sealing:
            seal(sealing)
        until(lambda: http.get("/outbox").json()["rejected"] == 1)
        names = {"hidden": HIDDEN, "name": NAME, "group": quote(GROUP, safe=""), "subscription": subscription}
        yield Scene(http, tokens, names)


def fill(http: httpx2.Client) -> str:
    """Make things of each kind at a hub, and return the id of a subscription."""

    def do(method: str, path: str, body: Any, **headers: str) -> Any:
        answer = http.request(method, path, json=body, headers=headers)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    lists = {"admins": members("user:root"), "writers": members("user:root")}
    do("POST", "/event-types", an_event_type(NAME, authorization={**lists, "readers": members("service:reader")}))
    do("POST", "/event-types", hidden())
    Served(http, NAME, 1).publish_ids(range(3))
    feed = Served(http, HIDDEN, 1)
    feed.publish_ids(range(20), key=HOSTILE, headers={"ce_type": HOSTILE, "x": HOSTILE})
    path = f"/groups/{quote(GROUP, safe='')}"
    at = {"event_type": HIDDEN, "partition": 0}
    span = {"index": 0, "next": 5, "events": 2, "attempts": 2, "since": "1:0"}
    parked = [{**at, "stream": HOSTILE, "tag": HOSTILE, "detail": HOSTILE, **span}]
    do("POST", f"{path}/positions", {"kind": "processor", "items": [{**at, "offset": 5}], "parked": parked})
    do("PATCH", f"{path}/positions", {"to": "earliest", "reason": MARKUP + LONG})
    given: dict[str, Any] = {
        "owning_application": MARKUP + LONG,
        "consumer_group": MARKUP + LONG,
        "event_types": [HIDDEN],
    }
    given["authorization"] = {"admins": members("user:root"), "readers": members("user:root")}
    subscription = do("POST", "/subscriptions", {**given, "read_from": "begin"})["id"]
    numbered = {"Producer-Group": LONG, "Producer-Epoch": "0", "Producer-Sequence": "0"}
    for name in (HIDDEN, NAME):
        do("POST", f"/event-types/{name}/partitions/0/events", [{"id": 1}], **numbered)
    do("PUT", f"/settings/blacklist/CONSUMER_APP/{quote(MARKUP + LONG, safe='')}", None)
    do("POST", "/tokens", {"name": MARKUP + LONG, "type": "service"})
    return str(subscription)


@pytest.fixture(scope="module")
def axe() -> str:
    """The source of axe, which looks for what cannot be used by keyboard or screen reader, or hardly be read."""
    subprocess.run([ROOT / "scripts" / "setup-assets", "axe"], check=True)
    return (ROOT / "build" / "axe" / "axe.js").read_text()


def sign_in(page: Page, scene: Scene, caller: str) -> None:
    """Have all pages that are opened sign in as *caller*."""
    page.add_init_script(f"sessionStorage.setItem('penstock.token', {scene.tokens[caller]!r})")


def check_harmless(page: Page) -> None:
    """Check that nothing that strangers wrote became a part of the page, or breaks its layout."""
    assert page.evaluate("window.ran") is None
    assert page.locator(":is(main, dialog) :is(script, img, iframe)").count() == 0
    shown = page.evaluate("document.body.textContent")
    assert not {*TO_THE_LEFT[:2], "\0", "\x1b"} & set(shown), shown
    wide = page.evaluate(
        """() => [document.documentElement, ...document.querySelectorAll("dialog")]
          .filter((each) => each.scrollWidth > each.clientWidth).map((each) => [each.tagName, each.scrollWidth])"""
    )
    assert wide == []
    assert page.evaluate("document.querySelectorAll('*').length") < NODES_MAX


def find_barriers(page: Page, rules: Sequence[str]) -> list[str]:
    """Return what axe calls serious or critical, by *rules*, else by all."""
    options = {"resultTypes": ["violations"]} | ({"runOnly": {"type": "rule", "values": rules}} if rules else {})
    found = page.evaluate("(options) => axe.run(document, options).then((all) => all.violations)", options)
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary']}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"][:3]
    ]


def test_table_of_pages_has_each_view_of_the_console() -> None:
    views = (STATIC / "app.js").read_text().partition("const VIEWS = [")[2].partition("];")[0]
    assert re.findall(r'\["([^"]+)"', views) == list(PAGES)


@pytest.mark.parametrize("theme", ["light", exhaustive("dark")])
def test_every_page_is_readable_and_harmless(
    scene: Scene, page: Page, axe: str, theme: Literal["light", "dark"]
) -> None:
    width, rules = LOOKS[theme]
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme)
    watched = Watched(page)
    sign_in(page, scene, "root")
    barriers = {}
    page.goto(f"{scene.origin}/console")
    page.evaluate(axe)  # By the debugger, which the page's policy does not concern.
    for path, text in scene.pages():
        go(page, f"{scene.origin}/console{path}")
        page.locator("main, dialog").get_by_text(text).first.wait_for()
        expect(page.get_by_text("Loading …")).to_have_count(0)
        if found := find_barriers(page, rules):
            barriers[path] = found
        check_harmless(page)
        watched.check(scene.origin)
    assert barriers == {}


@pytest.mark.exhaustive
def test_wide_events_and_schemas_stay_usable(scene: Scene, page: Page) -> None:
    """An event of 1 MB with 10,000 members, and a schema of as many, which refers to itself."""
    tree = {"type": "object", "properties": {f"t{number}": {"$ref": "#/properties/tree"} for number in range(10)}}
    wide = {f"m{number:05}": {"type": "string", "description": "d"} for number in range(MEMBERS)}
    for name, properties in ((WIDE, {**wide, "tree": tree}), (DEEP, {"tree": tree})):
        schema = {"type": "json_schema", "schema": json.dumps({"properties": properties})}
        scene.http.post("/event-types", json=an_event_type(name, schema=schema)).raise_for_status()
        data = {each: "x" for each in properties if each != "tree"} | {"large": "W" * (LARGE - 200_000)}
        Served(scene.http, name, 1).publish(data)
    sign_in(page, scene, "root")
    pages = {
        "/events?event=0:0": "9,801 more",
        "/events?view=publish": "Event, as JSON",
        "/schema": "m00000",
        "/schema?as=json": "show all",
        "/schema?edit=1": "This is the latest schema.",
        "/settings": "Review and save",
    }
    for name in (WIDE, DEEP):
        for path, text in pages.items():
            page.goto(f"{scene.origin}/console/event-types/{name}{path}")
            if name == WIDE:
                page.locator("main, dialog").get_by_text(text).first.wait_for()
            expect(page.get_by_role("heading", level=1)).to_contain_text(name)
            check_harmless(page)


def test_first_page_loads_little(scene: Scene, page: Page) -> None:
    devtools = page.context.new_cdp_session(page)
    devtools.send("Network.enable")
    sizes: list[float] = []
    devtools.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    sign_in(page, scene, "root")
    page.goto(f"{scene.origin}/console")
    page.get_by_text("1 row of the outbox rejected").wait_for()
    assert len(sizes) > 10
    assert sum(sizes) < OVERVIEW_BYTES_MAX


def test_tab_of_the_page_is_marked_whatever_the_name_has(scene: Scene, page: Page) -> None:
    group = "lake:a/b%2Fc"
    items = [{"event_type": NAME, "partition": 0, "offset": 0}]
    path = quote(group, safe=":")
    scene.http.post(f"/groups/{path}/positions", json={"kind": "processor", "items": items}).raise_for_status()
    sign_in(page, scene, "root")
    page.goto(f"{scene.origin}/console/consumers/{path}")
    current = page.locator(".tabs [aria-current=page]")
    expect(current).to_have_text("Positions")
    page.get_by_role("link", name="History").click()
    expect(current).to_have_text("History")
    page.reload()
    expect(current).to_have_text("History")


LARGE_NUMBER = 2**53 + 1
FORGET_SOURCE = """
  const parse = JSON.parse;
  JSON.parse = (text, change) => parse(text, change && function (key, value) { return change.call(this, key, value); });
"""
"""Makes a browser one of those that do not tell how a number of JSON is spelled."""


def test_browser_that_rounds_numbers_says_so_once_and_publishes_none(scene: Scene, page: Page) -> None:
    name = "order.numbered"
    schema = {"type": "json_schema", "schema": json.dumps({"properties": {"id": {"type": "integer"}}})}
    scene.http.post("/event-types", json=an_event_type(name, schema=schema)).raise_for_status()
    sign_in(page, scene, "root")
    page.add_init_script(FORGET_SOURCE)
    page.goto(f"{scene.origin}/console/event-types/{name}/events?view=publish")
    note = page.get_by_text("shows whole numbers beyond 2^53")
    note.get_by_role("button", name="Close").click()
    page.reload()
    page.get_by_label("id").fill(str(LARGE_NUMBER))
    expect(note).to_have_count(0)
    publish = page.get_by_role("button", name="Publish", exact=True)
    publish.click()
    page.get_by_text("This browser rounds whole numbers").wait_for()
    assert Served(scene.http, name, 1).read().events == []

    page.get_by_label("id").fill("1")
    page.get_by_role("button", name="JSON", exact=True).click()
    page.get_by_label("Event, as JSON").fill(f'{{"id": {LARGE_NUMBER}}}')
    publish.click()
    page.get_by_text("Published:").wait_for()
    assert [event["id"] for event in Served(scene.http, name, 1).read().events] == [LARGE_NUMBER]


def test_keyboard_reaches_navigation_page_and_dialogs(scene: Scene, page: Page) -> None:
    sign_in(page, scene, "root")
    page.goto(f"{scene.origin}/console/outbox")
    retry = page.get_by_role("button", name="Retry all …")
    retry.wait_for()
    page.evaluate("document.activeElement.blur()")
    reached: list[str] = []
    while not reached or reached[-1] != "Retry all …":
        assert len(reached) < 100, reached
        page.keyboard.press("Tab")
        reached.append(str(page.evaluate("document.activeElement.innerText || document.activeElement.ariaLabel || ''")))
    assert reached[:3] == ["Skip to the page", "Penstock", "Overview"]
    assert {"Tokens", "Sign out"} <= set(reached)
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    for _ in range(12):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement === document.body || !!document.activeElement.closest('dialog')")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(retry).to_be_focused()
    page.get_by_role("link", name="Settings", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Settings")).to_be_focused()


QUIET_MS = 200
COUNT_CALLS = """
  const call = window.fetch;
  Object.assign(window, { calls: 0, changed: performance.now() });
  const count = (change) => { window.calls += change; window.changed = performance.now(); };
  window.fetch = (...given) => { count(1); return call(...given).finally(() => count(-1)); };
"""
"""Counts what a page asks the hub at a time."""


def buttons(page: Page) -> set[str]:
    """The names of all buttons of the page once it asks nothing more, without those that sort a table."""
    expect(page.get_by_text("Loading …")).to_have_count(0)
    page.wait_for_function("(ms) => window.calls === 0 && performance.now() - window.changed > ms", arg=QUIET_MS)
    script = """() => [...document.querySelectorAll(":is(main, dialog) :is(button, a.button), .tabs a")]
      .filter((each) => each.checkVisibility() && !each.closest("th")).map((each) => each.innerText)"""
    return set(page.evaluate(script))


def test_reader_sees_no_button_that_the_hub_would_refuse(scene: Scene, page: Page) -> None:
    navigation = page.get_by_role("navigation", name="Console").get_by_role("link")
    sign_in(page, scene, "root")
    page.goto(f"{scene.origin}/console")
    for path, expected in OF_ADMINISTRATORS.items():
        go(page, f"{scene.origin}/console{path.format_map(scene.names)}")
        for button in expected:
            page.locator("main").get_by_role("button", name=button).or_(
                page.locator("main").get_by_role("link", name=button)
            ).first.wait_for()
    expect(navigation).to_have_count(9)

    sign_in(page, scene, "reader")
    page.add_init_script(COUNT_CALLS)
    page.goto(f"{scene.origin}/console")
    for path in dict.fromkeys([*OF_ADMINISTRATORS, *OF_READERS]):
        go(page, f"{scene.origin}/console{path.format_map(scene.names)}")
        page.get_by_role("heading", level=1).wait_for()
        assert buttons(page) <= HARMLESS, path
        if path in OF_READERS:
            page.locator("main").get_by_text(OF_READERS[path]).first.wait_for()  # Times may have the same digits.
    expect(navigation).to_have_text(["Overview", "Event types", "Consumers", "Producers"])


def test_hub_refuses_readers_what_the_console_does_not_show_them(scene: Scene) -> None:
    token = {"authorization": f"Bearer {scene.tokens['reader']}"}
    for request, body in REFUSED.items():
        method, path = request.format_map(scene.names).split(" ")
        answer = scene.http.request(method, path, json=body, headers=token)
        assert answer.status_code == 403, f"{request}: {answer.status_code} {answer.text}"


def test_token_lasts_until_one_signs_out_or_it_is_revoked_and_in_its_tab_alone(
    scene: Scene, page: Page, browser: Browser
) -> None:
    made = scene.http.post("/tokens", json={"name": "guest", "type": "service"}).json()
    entry, heading = page.get_by_label("Token", exact=True), page.get_by_role("heading", level=1)

    def enter(token: str) -> None:
        entry.fill(token)
        page.get_by_role("button", name="Sign in").click()

    page.goto(f"{scene.origin}/console/event-types")
    expect(heading).to_have_text("Sign in")
    enter("pst_wrong")
    page.get_by_text("The hub does not know this token.").wait_for()
    enter(made["token"])
    expect(heading).to_have_text("Event types")
    page.reload()
    expect(heading).to_have_text("Event types")
    page.get_by_text("Signed in as guest").wait_for()

    with page.context.new_page() as other:
        other.goto(f"{scene.origin}/console")
        expect(other.get_by_role("heading", level=1)).to_have_text("Sign in")

    page.get_by_role("button", name="Sign out").click()
    expect(heading).to_have_text("Sign in")
    assert made["token"] not in page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}])")
    page.reload()
    expect(heading).to_have_text("Sign in")

    enter(made["token"])
    expect(heading).to_have_text("Event types")
    assert scene.http.delete(f"/tokens/{made['id']}").is_success
    # The next request asks for a token again. The page makes some by itself, so the link may be gone by now.
    page.evaluate("document.querySelector('nav a[href$=\"/consumers\"]')?.click()")
    expect(heading).to_have_text("Sign in")
    assert page.evaluate("sessionStorage.getItem('penstock.token')") is None


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[httpx2.Client]:
    """A hub with 5,000 event types, one of them with events, and 1,000 groups that read it."""
    database = f"sqlite:///{tmp_path}/hub.db"
    local = open_hub(database)
    try:
        with local.store.write() as tx:
            for number in range(EVENT_TYPES):
                schema = {"type": "json_schema", "schema": json.dumps({"properties": {"id": {"type": "integer"}}})}
                given = an_event_type(f"shop.n{number:04}", owning_application=f"team-{number % 50}", schema=schema)
                tx.registry.insert(EventType.parse(given), START_AT)
        for number in range(GROUPS):
            local.groups.commit(f"group-{number:04}", "processor", [PositionCommit("shop.n0000", 0, 0)], None)
    finally:
        local.stop()
    with live_hub(database) as hub, client_of(hub) as http:
        Served(http, "shop.n0000", 1).publish_ids(range(100))
        yield http


@pytest.mark.exhaustive
def test_thousands_of_event_types_and_groups_are_listed_filtered_and_sorted(crowded: httpx2.Client, page: Page) -> None:
    watched, origin = Watched(page), str(crowded.base_url).rstrip("/")

    def timed(what: str, act: Callable[[], object]) -> None:
        begun = time.monotonic()
        act()
        sys.stdout.write(f"{what}: {time.monotonic() - begun:.2f} s\n")
        check_harmless(page)

    def open_page(path: str, text: str) -> Callable[[], object]:
        def act() -> None:
            page.goto(f"{origin}/console{path}")
            page.locator("main").get_by_text(text).first.wait_for()

        return act

    def search(label: str, text: str, found: str) -> Callable[[], object]:
        def act() -> None:
            page.get_by_label(label).fill(text)
            expect(page.get_by_role("row")).to_have_count(2)
            page.get_by_role("link", name=found).wait_for()

        return act

    def sort(column: str, first: str) -> Callable[[], object]:
        def act() -> None:
            page.get_by_role("button", name=column, exact=True).click()
            expect(page.locator("tbody tr").first).to_contain_text(first)

        return act

    timed("overview", open_page("", "group-"))
    timed("event types", open_page("/event-types", "5,000 event types"))
    timed("sorted by name", sort("Name", "shop.n4999"))
    timed("sorted by events", sort("Events", "shop.n0000"))
    timed("filtered", search("Search", "n4321", "shop.n4321"))
    timed("consumers", open_page("/consumers", "of 1,000"))
    timed("consumers by name", sort("Consumer", "group-0000"))
    timed("consumers filtered", search("Name or event type", "p-0777", "group-0777"))
    for path, text in {
        "/producers": "Looked at",
        "/cold-tier": "This hub has no cold tier",
        "/settings": "Block …",
        "/event-types/shop.n0000": "1,000",
        "/event-types/shop.n0000/consumers": "of 1,000",
        "/event-types/shop.n0000/settings": "Review and save",
    }.items():
        timed(path, open_page(path, text))
    watched.check(origin)
