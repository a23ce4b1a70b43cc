"""The commands that the console shows: the command line takes each, and means by it what the console does."""

import json
import re
import shlex
import sqlite3
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import httpx2
import pytest
from playwright.sync_api import Browser, Error, Locator, Page, Route, expect
from typer.core import TyperCommand
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.core.access import Caller
from penstock.testing.factories import an_event_type
from penstock.testing.live_hub import live_hub
from tests.browser.conftest import TIMEOUT_MS
from tests.browser.test_console_quality import PAGES
from tests.browser.walking import go
from tests.served import Served, client_of, until
from tests.server.in_process import open_hub

NAME = "order.placed"
WHY = "it's $(late)"
HOSTILE = ['a\'; $(reboot) `reboot`; "b" #', "--url=evil.example"]
GROUP = HOSTILE[0]
PATHS = {"name": NAME, "group": quote(GROUP, safe="")}


class Case(NamedTuple):
    """A place where the console shows a command."""

    path: str
    steps: Sequence[Sequence[str]]
    """click BUTTON, check LABEL, save the section of LABEL, fill or enter LABEL with TEXT, select TEXT in LABEL."""
    command: str
    """What the command is; the words of `penstock` or, of curl, its method and path."""
    expected: Mapping[str, Any] = {}
    """Some of its options and arguments."""


MOVE = ("/consumers/{group}", ("click", "Move …"), ("fill", "Reason", WHY))
SELECTED = {"event_type": NAME, "partition": 1}


def move(*steps: Sequence[str], **expected: Any) -> Case:
    named = {"name": GROUP, "reason": WHY, "event_type": None, "partition": None, "to": None, "offset": None}
    return Case(MOVE[0], [*MOVE[1:], *steps], "groups reset", named | expected)


SECOND = ("select", "Partition", f"{NAME} 1")
RETENTION = "Delete events that are older than"
CASES: Mapping[str, Case] = {
    "move-to-the-beginning": move(("select", "Where to", "earliest"), to="earliest"),
    "move-one-partition-to-the-end": move(("select", "Where to", "latest"), SECOND, **SELECTED, to="latest"),
    "move-to-a-duration-ago": move(("select", "Where to", "a duration ago"), ("fill", "How long ago", "1 h"), to="1 h"),
    "move-to-a-time": move(
        ("select", "Where to", "a time"), ("fill", "Time, local", "2020-01-01T00:00:00"), to="2020-01-01T00:00:00.000Z"
    ),
    "move-to-an-offset": move(
        ("select", "Where to", "an offset"), SECOND, ("fill", "The offset that", "2"), **SELECTED, offset=["2"]
    ),
    "move-a-subscription": Case(
        "/consumers/{subscription}", [*MOVE[1:], ("select", "Where to", "latest")], "groups reset", {"to": "latest"}
    ),
    "delete-a-processor": Case("/consumers/{group}", [("click", "Delete …")], "groups delete", {"name": GROUP}),
    "delete-a-subscription": Case("/consumers/{subscription}", [("click", "Delete …")], "subscription delete"),
    "expel": Case("/consumers/{group}", [("click", "Expel …")], "DELETE /groups/{group}/members/first"),
    "retry": Case(
        "/consumers/{group}/parked", [("click", "Retry …")], "groups parked retry", {"name": GROUP, "everything": False}
    ),
    "retry-all": Case(
        "/consumers/{group}/parked",
        [("click", "Retry all …")],
        "groups parked retry",
        {"name": GROUP, "everything": True},
    ),
    "skip": Case(
        "/consumers/{group}/parked",
        [("click", "Skip …"), ("fill", "Reason", WHY)],
        "groups parked skip",
        {"name": GROUP, "reason": WHY},
    ),
    "forget": Case(
        "/producers",
        [("click", "Forget till in partition 0 of order.placed")],
        "DELETE /event-types/{name}/partitions/0/producers/till",
    ),
    "retry-rejected": Case("/outbox", [("click", "Retry all …")], "rejected retry", {"everything": True}),
    "delete-rejected": Case(
        "/outbox?event_type=--all", [("click", "Delete all …")], "rejected delete", {"event_type": "--all"}
    ),
    "cold": Case("/cold-tier", [], "cold list"),
    "cold-of-one": Case("/cold-tier?event_type={name}", [], "cold list", {"event_type": NAME}),
    "new-token": Case(
        "/tokens",
        [("click", "New token …"), ("fill", "Its name", "-x y")],
        "token create",
        {"application": "-x y", "expires_in": 90 * 86_400.0},
    ),
    "rotate": Case("/tokens", [("click", "Rotate {token} of service:guest")], "token rotate", {"overlap": 86_400.0}),
    "revoke": Case("/tokens", [("click", "Revoke {token} of service:guest")], "token revoke"),
    "feature": Case("/settings", [("click", "Turn on: Access log")], "POST /settings/features"),
    "block": Case(
        "/settings", [("fill", "Name", "it's"), ("click", "Block …")], "PUT /settings/blacklist/CONSUMER_APP/it's"
    ),
    "retention": Case(
        "/settings", [("fill", RETENTION, "1.5"), ("save", RETENTION)], "retention default", {"time": 129_600.0}
    ),
    "replicas": Case(
        "/settings", [("check", "Nobody: everybody reads from the primary"), ("save", "Nobody")], "replicas readers",
        {"nobody": True},
    ),
    "audit-log": Case("/audit-log", [("click", "Turn on the audit log")], "POST /settings/features"),
    "partitions": Case(
        "/event-types/{name}/settings",
        [("fill", "Number of partitions", "3"), ("click", "Add partitions")],
        "PUT /event-types/{name}/partition-count",
    ),
    "delete-an-event-type": Case(
        "/event-types/{name}/settings", [("click", "Delete order.placed")], "event-type delete", {"name": NAME}
    ),
    "retry-rejected-rows": Case(
        "/outbox", [("check", "Choose row 1"), ("click", "Retry 1 chosen")], "rejected retry", {"ids": [1]}
    ),
    "administrator": Case(
        "/settings",
        [("enter", "Name to add to Administrators", "it's"), ("save", "Name to add to Administrators")],
        "access add",
        {"name": "admins", "caller": "service:it's"},
    ),
    "some-read-replicas": Case(
        "/settings",
        [
            ("check", "Only these callers"),
            ("enter", "Name to add to Readers of replicas", "it's"),
            ("save", "Name to add to Readers of replicas"),
        ],
        "replicas readers",
        {"only": ["service:it's"]},
    ),
    "change-an-event-type": Case(
        "/event-types/{name}/settings",
        [("fill", "Owner", "it's"), ("click", "Review and save")],
        "event-type apply",
        {"files": [Path(f"{NAME}.json")]},
    ),
    "add-a-schema": Case(
        "/event-types/{name}/schema?edit=1",
        [("fill", "JSON Schema, of draft 4", '{{"description": "it\'s"}}'), ("click", "Add this schema")],
        "POST /event-types/{name}/schemas",
    ),
    "new-event-type": Case("/new-event-type", [("fill", "Name", "a.b")], "event-type create", {"name": "a.b"}),
    "publish": Case("/event-types/{name}/events?view=publish", [], "publish", {"event_type": NAME}),
}  # fmt: skip


class Scene(NamedTuple):
    http: httpx2.Client
    secret: str
    paths: Mapping[str, str]

    @property
    def hub(self) -> str:
        return str(self.http.base_url).rstrip("/")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A hub with something behind each command."""
    folder = tmp_path_factory.mktemp("commands")
    database = f"sqlite:///{folder}/hub.db"
    local = open_hub(database)
    try:
        secret = local.admin.tokens.create(Caller("user", "root")).secret
    finally:
        local.stop()
    options = ["--auth", "token", "--admin", "user:root", "--cold", f"file://{folder}/cold", "--cold-after", "never"]
    with live_hub(database, options=options) as hub, client_of(hub) as http:
        http.headers["authorization"] = f"Bearer {secret}"
        http.post("/settings/features", json={"feature": "audit_log_collection", "enabled": False}).raise_for_status()
        members = [{"data_type": "user", "value": "root"}]
        http.post("/settings/admins", json=dict.fromkeys(("admins", "readers", "writers"), members)).raise_for_status()
        made = fill(http, folder / "hub.db")
        yield Scene(http, secret, {**PATHS, **made})


def fill(http: httpx2.Client, database: Path) -> dict[str, str]:
    """Make what the commands are about, and return what addresses have of it."""

    def do(method: str, path: str, body: Any, **headers: str) -> Any:
        answer = http.request(method, path, json=body, headers=headers)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    do("POST", "/event-types", an_event_type(NAME, partition_count=2))
    Served(http, NAME, 2).publish_ids(range(20))
    path = f"/groups/{PATHS['group']}"
    items = [{"event_type": NAME, "partition": partition, "offset": 3} for partition in range(2)]
    span = {"index": 0, "next": 2, "events": 2, "attempts": 2, "since": "1:0"}
    parked = [{"event_type": NAME, "partition": 0, "stream": "7", "tag": "gone", "detail": "gone", **span}]
    do("POST", f"{path}/positions", {"kind": "processor", "items": items, "parked": parked})
    do("POST", f"{path}/members/first", {"lease_seconds": 3600, "tranches": [f"{NAME}/0"]})
    subscription = do("POST", "/subscriptions", {
        "owning_application": "app", "event_types": [NAME], "read_from": "begin"
    })["id"]  # fmt: skip
    numbered = {"Producer-Group": "till", "Producer-Epoch": "0", "Producer-Sequence": "0"}
    do("POST", f"/event-types/{NAME}/partitions/0/events", [{"id": 1}], **numbered)
    with closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        connection.execute("INSERT INTO penstock_outbox (event_type, data) VALUES ('--all', '{}')")
    until(lambda: http.get("/outbox").json()["rejected"] == 1)
    token = do("POST", "/tokens", {"name": "guest", "type": "service"})["id"]
    return {"hidden": NAME, "subscription": str(subscription), "token": str(token)}


def take(page: Page, step: Sequence[str], scene: Scene) -> None:
    what, name, *text = (each.format_map(scene.paths) for each in step)
    main: Locator | Page = page.get_by_role("dialog") if page.get_by_role("dialog").count() else page.locator("main")
    match what:
        case "click":
            main.get_by_role("button", name=name, exact=True).click()
        case "check":
            main.get_by_label(name).check()
        case "save":
            form = page.locator("section", has=page.get_by_label(name, exact=name == RETENTION))
            form.get_by_role("button", name="Save …").click()
        case "enter":
            main.get_by_label(name).fill(*text)
            main.get_by_label(name).press("Enter")
        case "fill":
            main.get_by_label(name, exact=name in (RETENTION, "Name")).first.fill(*text)
        case _:
            field = main.get_by_label(name)
            field.select_option(field.locator("option").filter(has_text=text[0]).first.get_attribute("value"))


@pytest.fixture(scope="module")
def shared(scene: Scene, browser: Browser) -> Iterator[Page]:
    """A page that is signed in, with the browser's cache of the tests before."""
    errors: list[Error] = []
    with browser.new_context() as context, context.new_page() as page:
        page.set_default_timeout(TIMEOUT_MS)
        page.on("pageerror", lambda error: errors.append(error))  # noqa: PLW0108 - Playwright takes no builtin
        page.add_init_script(f"sessionStorage.setItem('penstock.token', {scene.secret!r})")
        yield page
    assert errors == []


def open_case(page: Page, scene: Scene, case: Case) -> str:
    """Go to the command of a case, and return it."""
    address = f"{scene.hub}/console{case.path.format_map(scene.paths)}"
    if page.url.startswith(scene.hub):
        go(page, address)
    else:
        page.goto(address)
    page.get_by_role("heading", level=1).wait_for()
    for step in case.steps:
        take(page, step, scene)
    place = "dialog" if page.get_by_role("dialog").count() else "main"
    command = "curl" if case.command[0].isupper() else f"penstock {case.command}"
    return page.locator(f"{place} .command code").filter(has_text=command).first.text_content() or ""


def parse(command: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, Any]]:
    """Return what a command is, and its options and arguments, by the parser of the command line; it is not run."""
    words = shlex.split(command)
    words = words[words.index("|") + 1 :] if "|" in words else words
    if words[0] == "curl":
        return parse_curl(words[1:])
    if words[0] == "duckdb":
        return words[0], {}
    assert words[0] == "penstock", command
    parsed: list[tuple[str, dict[str, Any]]] = []

    def invoke(self: TyperCommand, context: Any) -> None:
        del self
        parsed.append((context.command_path.split(" ", 1)[1], dict(context.params)))

    with monkeypatch.context() as patch:
        patch.setattr(TyperCommand, "invoke", invoke)
        result = CliRunner().invoke(app, words[1:], prog_name="penstock")
    assert result.exit_code == 0, f"{command}: {result.output}"
    return parsed[0]


def parse_curl(words: list[str]) -> tuple[str, dict[str, Any]]:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("-X", required=True)
    parser.add_argument("-H", action="append", default=[])
    parser.add_argument("-d", type=json.loads)
    parser.add_argument("url", nargs="+")
    given = parser.parse_args(words)
    address = httpx2.URL(given.url[0])
    path = address.raw_path.decode()
    return f"{given.X} {unquote(path)}", {"url": f"{address.scheme}://{address.netloc.decode()}", "headers": given.H}


@pytest.mark.parametrize("name", CASES)
def test_command_line_takes_the_command_that_the_console_shows(
    scene: Scene, shared: Page, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    case = CASES[name]
    command = open_case(shared, scene, case)
    what, given = parse(command, monkeypatch)
    assert what == unquote(case.command.format_map(scene.paths))
    if "url" in given:
        assert given["url"] == scene.hub
    assert {key: given[key] or None for key in case.expected} == {
        key: value or None for key, value in case.expected.items()
    }
    if what == "groups reset":
        check_same_move(shared, scene, command)


def test_command_line_takes_each_command_of_each_page(
    scene: Scene, shared: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = shared
    commands = []
    page.goto(f"{scene.hub}/console")
    for path in [each for views in PAGES.values() for each in views]:
        go(page, f"{scene.hub}/console{path.format_map(scene.paths)}")
        page.get_by_role("heading", level=1).wait_for()
        expect(page.get_by_text("Loading …")).to_have_count(0)
        commands += page.locator(".command code").all_text_contents()
    assert len(commands) > 5
    for command in commands:
        parse(command, monkeypatch)


def check_same_move(page: Page, scene: Scene, command: str) -> None:
    """Check that the command line would move the group to where the console shows."""
    goals = page.get_by_role("dialog").locator("tbody tr td:nth-child(3)").all_inner_texts()
    words = [*shlex.split(command)[1:3], "--dry-run", "--output", "json", *shlex.split(command)[3:]]
    result = CliRunner().invoke(app, words, prog_name="penstock", env={"PENSTOCK_TOKEN": scene.secret})
    assert result.exit_code == 0, result.output
    assert [str(each["offset"]) for each in json.loads(result.stdout)["items"]] == goals


@pytest.mark.parametrize(("zone", "hour"), [("local", "15"), ("utc", "00")])
def test_time_to_move_to_is_entered_in_the_chosen_zone(scene: Scene, browser: Browser, zone: str, hour: str) -> None:
    case = move(
        ("select", "Where to", "a time"), ("fill", "Time, UTC" if zone == "utc" else "Time, local", "2020-01-02T00:00")
    )
    with browser.new_context(timezone_id="Asia/Tokyo") as context, context.new_page() as page:
        page.set_default_timeout(TIMEOUT_MS)
        page.add_init_script(f"sessionStorage.setItem('penstock.token', {scene.secret!r})")
        page.add_init_script(f"localStorage.setItem('penstock.utc', '{int(zone == 'utc')}')")
        command = open_case(page, scene, case)
        assert f" --to 2020-01-0{2 if zone == 'utc' else 1}T{hour}:00:00.000Z " in command


@pytest.mark.parametrize("group", HOSTILE)
def test_hostile_name_of_a_group_is_one_argument_of_every_command(
    scene: Scene, page: Page, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    event_type = f"near.n{HOSTILE.index(group)}"
    scene.http.post("/event-types", json=an_event_type(event_type, options={"retention_time": 86_400_000}))
    feed = Served(scene.http, event_type, 1)
    feed.publish_ids(range(3))
    items = [{"event_type": event_type, "partition": 0, "offset": 0}]
    path = f"/groups/{quote(group, safe='')}"
    scene.http.post(f"{path}/positions", json={"kind": "processor", "items": items})
    page.add_init_script(f"sessionStorage.setItem('penstock.token', {scene.secret!r})")
    # Its lag as it would be before retention deletes what it has not read.
    page.route(re.compile(r"/groups(/|\?|$)"), lambda route: slow_down(route, group))
    page.goto(f"{scene.hub}/console")
    near = page.get_by_role("listitem").filter(has_text="is near the retention of").filter(has_text=event_type)
    command = near.locator(".command code").text_content() or ""
    assert parse(command, monkeypatch)[1]["name"] == group
    for each in page.locator(".command code").all_text_contents():
        what, given = parse(each, monkeypatch)
        assert "groups" not in what or given["name"] in HOSTILE, each


def slow_down(route: Route, group: str) -> None:
    """Answer with a group that has not read for long."""
    answer = route.fetch()
    body = answer.json()
    for each in body.get("items", [body]):
        if each.get("name") == group:
            each |= {"gap": 3, "lag_seconds": 80_000.0}
            for position in each.get("positions", ()):
                position["lag_seconds"] = 80_000.0
    route.fulfill(response=answer, json=body)


def test_command_that_verifies_files_names_the_cold_tier(
    scene: Scene, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add_delay(route: Route) -> None:
        answer = route.fetch()
        metrics = answer.json()
        metrics["gauges"]["penstock_cold_overdue_seconds"] = {"value": 3600}
        route.fulfill(response=answer, json=metrics)

    page.add_init_script(f"sessionStorage.setItem('penstock.token', {scene.secret!r})")
    page.route("**/metrics", add_delay)
    command = open_case(page, scene, Case("/cold-tier", [], "cold verify"))
    location = scene.http.get(f"/event-types/{NAME}/cold-files", params={"partition": 0}).json()["location"]
    until(lambda: location in (page.locator(".command code").first.text_content() or ""))
    what, given = parse(page.locator(".command code").first.text_content() or command, monkeypatch)
    assert (what, given["cold"]) == ("cold verify", location)


def test_dialogs_say_whether_the_audit_log_records_it(scene: Scene, shared: Page) -> None:
    open_case(shared, scene, CASES["delete-rejected"])
    expect(shared.get_by_role("dialog")).to_contain_text("The audit log is off: nothing will say who deleted them.")
    open_case(shared, scene, CASES["skip"])
    expect(shared.get_by_label("Reason, for the history", exact=True)).to_be_visible()
