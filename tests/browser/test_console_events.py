"""The console's view of events: search, pages, filters, one event, live tail, and publishing."""

import json
import os
import re
from collections.abc import Iterable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.walking import go, next_moment, walk_to_event_type
from tests.forks import FORKS, PYTHON
from tests.served import Served, create

SCRIPT = "<img src=x onerror='window.ran=1'><script>window.ran=1</script>"
TO_THE_LEFT = "\u202e\u2066gnihtemos"
SCHEMA = {
    "required": ["order", "state"],
    "properties": {
        "order": {"type": "integer"},
        "state": {"enum": ["placed", "paid"]},
        "gift": {"type": "boolean"},
        "address": {"type": "object", "properties": {"a/b": {"type": "string", "minLength": 3}}},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"count": {"type": "integer"}}}},
        "more": {},
    },
}


@pytest.fixture
def orders(http: httpx2.Client) -> Served:
    """A feed of four partitions with 300 events, of which three are about order 4711, and one about 47110."""
    feed = create(http, 4)
    numbers = {10: 4711, 125: 4711, 130: 47110, 290: 4711}
    for start in range(0, 300, 60):  # A transaction each, so that they differ in time.
        feed.publish_lines(
            {
                "data": {
                    "order": numbers.get(at, at),
                    "customer": f"caf\u00e9 {at % 7}",
                    "lines": [{"sku": f"A-{at}"}],
                },
                "partition": at % 4,
                "key": f"key-{at % 10}",
                "headers": {"ce_type": "order.express" if at % 50 == 0 else "order.plain"},
            }
            for at in range(start, start + 60)
        )
    return feed


def open_events(page: Page, feed: Served, query: str = "") -> None:
    """Open the page, or go on to another one of it, without loading scripts again."""
    console = f"{feed.http.base_url}/console"
    show = go if page.url.startswith(console) else Page.goto
    show(page, f"{console}/event-types/{feed.name}/events{query}")


def places(page: Page) -> list[str]:
    """The places of the events in the table, from above."""
    return page.locator(".events tbody td:nth-child(2) a").all_inner_texts()


def wait_for_place(page: Page, place: str) -> None:
    page.locator(".events").get_by_text(place, exact=True).wait_for()


def places_of(numbers: Iterable[int]) -> set[str]:
    """The places of the fixture's events with these *numbers*."""
    return {f"{number % 4}:{number // 4}" for number in numbers}


def program(sheet: Locator, name: str) -> str:
    section = sheet.locator("section.program", has=sheet.page.get_by_role("heading", name=name))
    return section.locator("code").inner_text()


def test_search_finds_the_events_of_an_order_in_order_of_time_and_opens_one(
    orders: Served, page: Page, tmp_path: Path
) -> None:
    walk_to_event_type(page, orders.http, orders.name, "Events")
    page.get_by_label("What happened to").fill("4711")
    page.get_by_role("button", name="Find all events").click()
    page.get_by_text("scanned 300 of 300, 3 found").wait_for()
    assert places(page) == ["2:2", "1:31", "2:72"]
    wait_for_place(page, "1:31")
    page.get_by_role("link", name="1:31").click()
    sheet = page.get_by_role("dialog")
    sheet.get_by_text("partition 1, offset 31").wait_for()
    page.reload()
    sheet.get_by_text("partition 1, offset 31").wait_for()
    assert sheet.locator(".tree .number").first.inner_text() == "4711"
    sheet.get_by_role("button", name="Headers").click()
    sheet.get_by_text("ce_type").wait_for()
    sheet.get_by_role("button", name="Copy as").click()
    address = re.fullmatch(r"curl '(.*)'\s*", program(sheet, "curl"))
    assert address is not None
    lines = [json.loads(line) for line in orders.http.get(address[1]).text.splitlines()]
    assert [line["data"]["order"] for line in lines if "data" in line] == [4711]
    command = [PYTHON, "-c", program(sheet, "Python")]
    with closing(FORKS.with_pipes(command, tmp_path, os.environ, has_input=False)) as ran:
        assert ran.communicate()[0].startswith(b"key-5 ")
    page.go_back()
    sheet.wait_for(state="detached")
    assert places(page) == ["2:2", "1:31", "2:72"]
    page.get_by_role("link", name="1:31").click()
    sheet.wait_for()
    page.keyboard.press("Escape")
    sheet.wait_for(state="detached")
    assert "find=4711" in page.url
    page.go_back()
    expect(page).not_to_have_url(re.compile("find="))


def test_pages_lead_to_each_event_once_in_both_directions(orders: Served, page: Page) -> None:
    older, newer = page.get_by_role("button", name="Older"), page.get_by_role("button", name="Newer")
    for query in ("", "?text=order"):
        open_events(page, orders, query)
        pages: list[list[str]] = []
        while len(pages) < 6:
            if pages:
                older.click()
                page.get_by_text(pages[-1][0], exact=True).wait_for(state="detached")
            page.locator(".events tbody tr").nth(49).wait_for()
            expect(page.get_by_role("button", name="Refresh")).to_be_visible()
            pages.append(places(page))
        assert len({place for each in pages for place in each}) == 300
        expect(older).to_be_disabled()
        newer.click()
        wait_for_place(page, pages[-2][0])
        expect(page.get_by_role("button", name="Refresh")).to_be_visible()
        assert places(page) == pages[-2]
        page.go_back()
        wait_for_place(page, pages[-1][0])


def test_filters_and_starts_choose_events(orders: Served, page: Page) -> None:
    cursors = orders.read(pagesizehint=0, cursors="_last").cursors
    for query, expected in (
        ("key=key-3&text=CAF%C3%89+3", [at for at in range(3, 300, 10) if at % 7 == 3]),
        ("kind=order.express", range(0, 300, 50)),
        ("path=%24.lines%5B*%5D.sku+%3D%3D+%22A-17%22", [17]),
        ("path=%24.lines%5B0%5D.sku+%3D%3D+%27A-17%27", [17]),
        ("path=%24.order+%3E%3D+290&from=offset&at=70", range(290, 300)),
        ("partition=2&from=offset&at=73&text=order", [294, 298]),
        ("text=order&from=cursor&at=" + cursors[1].removesuffix("75") + "74", [297]),
        ("text=order&from=cursor&page=newer.74&at=" + cursors[1].removesuffix("75") + "74", [297]),
        ("text=order&from=time&at=2100-01-01T00:00:00Z", []),
        ("text=a-17", [17, *range(170, 180)]),
        ("find=A-17", [17]),
    ):
        open_events(page, orders, f"?size=500&{query}")
        page.get_by_text("complete").wait_for()
        assert set(places(page)) == places_of(expected), query
    open_events(page, orders, "?path=" + quote("$.order > 1 && $.order < 3"))
    page.get_by_text("“1 && $.order < 3” is no value").wait_for()
    open_events(page, orders, "?partition=99")
    page.get_by_text("There is no partition 99: they are 0 to 3.").wait_for()


def test_address_of_an_event_opens_it_over_the_page(orders: Served, page: Page) -> None:
    rights: list[Route] = []
    # A method of a list has no attributes, which Playwright sets.
    page.route("**/caller?event_type=*", lambda route: rights.append(route))  # noqa: PLW0108
    open_events(page, orders, "?event=2:7")
    sheet = page.get_by_role("dialog")
    sheet.get_by_text("partition 2, offset 7").wait_for()
    for each in rights:
        each.continue_()
    page.get_by_role("link", name="Publish").wait_for(state="attached")
    page.locator("dialog:modal").wait_for()


def test_view_of_a_tab_that_nobody_sees_yet_is_loaded(orders: Served, page: Page) -> None:
    page.add_init_script("Object.defineProperty(document, 'hidden', { get: () => true })")
    open_events(page, orders, "?size=500&path=" + quote("$.order == 17"))
    page.get_by_text("complete").wait_for()
    assert set(places(page)) == places_of([17])


@pytest.mark.parametrize(("start", "age"), [("1h", timedelta(hours=1)), ("1d", timedelta(days=1))])
def test_start_at_an_age_leaves_out_older_events(feed: Served, page: Page, start: str, age: timedelta) -> None:
    feed.publish_ids(range(3))
    moment = next_moment()
    feed.publish_ids(range(3, 5))
    page.clock.set_fixed_time(moment + age)
    open_events(page, feed, f"?text=id&from={start}")
    page.get_by_text("complete").wait_for()
    assert set(places(page)) == {"0:3", "0:4"}


def test_id_of_a_message_tells_where_each_partition_is(http: httpx2.Client, page: Page) -> None:
    page.goto(f"{http.base_url}/console")
    found = page.evaluate(
        """async (ids) => {
          const module = document.querySelector("script[type=module]").src.replace("app.js", "core/feed.js");
          const { parseMessageId } = await import(module);
          return ids.map((each) => [...parseMessageId(each)]);
        }""",
        ["1-f4ec22d8-1-1-1-0-17", "1-f4ec22d8-1-4-4-0-9.1-10.3-12"],
    )
    assert found == [[[0, 17]], [[0, 9], [1, 10], [3, 12]]]


def test_conditions_and_numbers_are_read_exactly(http: httpx2.Client, page: Page) -> None:
    page.goto(f"{http.base_url}/console")
    found = page.evaluate(
        """async (cases) => {
          const module = document.querySelector("script[type=module]").src.replace("app.js", "core/json.js");
          const { compileCondition, indent, parseExact, writeExact } = await import(module);
          const data = parseExact('{"a":{"b":[1,{"c":"x"}],"d-e":null},"big":9007199254740993,"t":"2026-01-02"}');
          const holds = cases.map((each) => {
            try { return compileCondition(each)(data); } catch (error) { return error.name; }
          });
          return [holds, writeExact(data), indent('{"a":[1.50,{}],"b":"{,"}')];
        }""",
        cases := [
            "$.a.b[0]", "$.a.b[0] == 1", "$.a.b[1].c == x", '$["a"].b[*].c == "x"', "$.a.d-e == null",
            "$.big == 9007199254740993", '$.t >= "2026"', "$.a.b[0] != 2",
            "$.a.b[2]", "$.a.b[0] == 2", "$.big == 9007199254740992", "$.toString", "$.t > 5",
            "a.b", "$.a..b", "$.a[",
        ],
    )  # fmt: skip
    assert found[0] == [True] * 8 + [False] * 5 + ["SyntaxError"] * (len(cases) - 13)
    assert '"big":9007199254740993' in found[1]
    assert found[2] == '{\n  "a": [\n    1.50,\n    {}\n  ],\n  "b": "{,"\n}'


def test_hostile_events_neither_run_nor_break_the_layout(http: httpx2.Client, page: Page) -> None:
    feed = create(http)
    hostile = {
        SCRIPT: SCRIPT,
        "long": "W" * 900_000,
        "left": TO_THE_LEFT,
        "control": "\0\a\x1b[31m\r\n",
        "__proto__": {"a": 1},
        "wide": [["W" * 5000]],
    }
    feed.publish(
        hostile, key=SCRIPT + TO_THE_LEFT + "K" * 500, headers={"ce_type": SCRIPT + "T" * 500, "x": SCRIPT * 20}
    )

    def check() -> None:
        assert page.evaluate("window.ran") is None
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(
            "[...document.querySelectorAll('dialog')].every((each) => each.scrollWidth <= each.clientWidth)"
        )
        assert page.locator("main script, main img, dialog script, dialog img").count() == 0
        assert not {*TO_THE_LEFT[:2], "\0", "\x1b"} & set(page.locator("body").inner_text())

    for width in (1400, 420):
        page.set_viewport_size({"width": width, "height": 900})
        for view in ("", "?find=ran", "?text=window.ran"):
            open_events(page, feed, view)
            wait_for_place(page, "0:0")
            check()
        page.get_by_role("link", name="0:0").click()
        sheet = page.get_by_role("dialog")
        sheet.get_by_text("900,000 characters").wait_for()
        check()
        for tab in ("Raw", "Headers", "Copy as"):
            sheet.get_by_role("button", name=tab).click()
            check()


def test_form_shows_violations_beside_fields_and_publishes_what_the_live_tail_shows(
    http: httpx2.Client, page: Page
) -> None:
    feed = create(http, schema={"type": "json_schema", "schema": json.dumps(SCHEMA)})
    open_events(page, feed, "?view=publish")
    page.get_by_label("order", exact=False).first.fill("x")
    page.get_by_label("a/b").fill("A")
    page.get_by_role("button", name="Add an item").click()
    page.get_by_label("count").fill("1.5")
    page.get_by_role("button", name="Publish", exact=True).click()
    page.get_by_text("The event was not published. 4 violations of the schema").wait_for()
    assert page.locator("[aria-invalid=true]").count() == 4
    expect(page.locator("label", has_text="state").locator(".violation")).to_have_text("is required")
    page.get_by_label("order", exact=False).first.fill("9007199254740993")
    page.get_by_label("state").select_option("paid")
    page.get_by_label("gift").select_option("true")
    page.get_by_label("a/b").fill("Ada")
    page.get_by_label("count").fill("2")
    page.get_by_label("Key").fill("k")
    page.get_by_role("button", name="Add a header").click()
    page.get_by_label("Header", exact=True).fill("ce_type")
    page.get_by_label("Value").fill("order.paid")
    with page.context.new_page() as watching:
        with watching.expect_response(lambda each: each.headers["content-type"] == "text/event-stream"):
            open_events(watching, feed, "?view=live&kind=order.paid")
        watching.get_by_text("following").wait_for()
        page.get_by_role("button", name="Publish", exact=True).click()
        page.get_by_text("Published:").get_by_role("link", name="0:0").click()
        page.get_by_role("dialog").get_by_text("9007199254740993").wait_for()
        wait_for_place(watching, "0:0")
        watching.get_by_role("button", name="Pause").click()
        feed.publish({"order": 2, "state": "paid"}, headers={"ce_type": "order.paid"})
        feed.publish({"order": 3, "state": "paid"}, headers={"ce_type": "order.other"})
        watching.route("**/feeds/**", lambda route: route.fulfill(status=403, json={"title": "Forbidden"}))
        watching.get_by_role("button", name="Resume").click()
        watching.get_by_text("stopped", exact=True).wait_for()
        watching.unroute("**/feeds/**")
        watching.get_by_role("button", name="Resume").click()
        wait_for_place(watching, "0:1")
        assert places(watching) == ["0:1", "0:0"]
    [first, *_] = feed.read().lines
    assert first["data"] == {
        "order": 9007199254740993,
        "state": "paid",
        "gift": True,
        "address": {"a/b": "Ada"},
        "lines": [{"count": 2}],
    }
