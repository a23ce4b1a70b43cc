"""A real nginx keeps pages as the guide has it configured: it serves the history to all readers, and ends with it."""

import json
import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pytest

from penstock.core.access import Caller
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.testing.factories import an_event_type
from penstock.testing.live_hub import live_hub
from penstock.testing.port import free_port
from tests.conformance.http.nginx import run_nginx
from tests.exhaustive import examples
from tests.served import ARROW, Served, client_of, create, until

GUIDE = Path(__file__).parents[3] / "docs/guides/serving-thousands-of-readers.md"
READERS = examples(20, 100)
PAGES, SIZE = 6, 50


def settings_of_guide(which: int, hub_port: int, port: int, directory: Path) -> str:
    """Return a configuration of the guide for this hub, which lets a slow machine take its time and soon asks again."""
    blocks = re.findall(r"```nginx\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    for given, here in (
        ("server 127.0.0.1:8080;", f"server 127.0.0.1:{hub_port};"),
        ("listen 8090;", f"listen 127.0.0.1:{port};"),
        ("/var/cache/nginx", str(directory)),
        ("lock_timeout 10s;", "lock_timeout 600s;"),
        ("lock_age 10s;", "lock_age 600s;"),
        *([("valid 200 10s;", "valid 200 1s;")] if which else []),
    ):
        assert given in blocks[which]
        blocks[which] = blocks[which].replace(given, here)
    settings: str = blocks[which]
    return settings


@contextmanager
def cached(url: str, folder: Path, *options: str, which: int = 0) -> Iterator[tuple[httpx2.Client, httpx2.Client]]:
    """Serve the database behind nginx; lend a client of the hub, and one of nginx. The hub's log is `hub.log`."""
    with ExitStack() as stack:
        hub = stack.enter_context(live_hub(url, log=folder / "hub.log", options=options))
        port = free_port()
        stack.enter_context(run_nginx(settings_of_guide(which, hub.port, port, folder), port))
        http = stack.enter_context(client_of(hub))
        yield http, stack.enter_context(httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=600))


def read_lines(http: httpx2.Client, path: str, cursor: str) -> tuple[list[int], str]:
    lines = [json.loads(line) for line in answer_of(http, path, cursor).text.splitlines()]
    return [each["data"]["n"] for each in lines if "data" in each], lines[-1]["cursor"]


def read_arrow(http: httpx2.Client, path: str, cursor: str) -> tuple[list[int], str]:
    answer = answer_of(http, path, cursor, accept=ARROW)
    with pa.ipc.open_stream(answer.content) as stream:
        numbers = [json.loads(each)["n"] for each in stream.read_all()["data"].to_pylist()]
    return numbers, answer.headers["penstock-cursor"].removeprefix("cursor0=")


def answer_of(http: httpx2.Client, path: str, cursor: str, **headers: str) -> httpx2.Response:
    answer = http.get(f"{path}={cursor}&pagesizehint={SIZE}", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer


V1, V2 = "?n=1&cursor0", "/events?token=1-1&partition=0&cursor"


@pytest.mark.parametrize(
    ("query", "read"), [(V1, read_lines), (V2, read_lines), (V2, read_arrow)], ids=["v1", "v2", "arrow"]
)
def test_many_readers_of_the_whole_history_cost_the_hub_no_more_than_one(tmp_path: Path, query: str, read: Any) -> None:
    with cached(f"sqlite:///{tmp_path}/hub.db", tmp_path) as (http, proxy):
        feed = create(http)
        feed.publish(*({"n": n} for n in range(PAGES * SIZE + 1)))
        path = feed.path + query

        def read_all(_: int) -> list[int]:
            found, cursor = [], "_first"
            while len(found) < PAGES * SIZE:
                numbers, cursor = read(proxy, path, cursor)
                found += numbers
            return found

        with ThreadPoolExecutor(READERS) as pool:
            found = [*pool.map(read_all, range(READERS))]
        served = f'penstock_feed_events_served_total{{event_type="{feed.name}"}} {PAGES * SIZE}.0'
        is_served_once = served in http.get("/metrics").text

    assert found == [[*range(PAGES * SIZE)]] * READERS
    pages = [
        line for line in (tmp_path / "hub.log").read_text().splitlines() if feed.name in line and "/feeds/" in line
    ]
    read_pages = [line for line in pages if '"method":"GET"' in line and '"status":200' in line]
    assert len(read_pages) == PAGES
    assert is_served_once


def numbers_of(answer: httpx2.Response) -> list[int]:
    return [json.loads(line)["data"]["n"] for line in answer.text.splitlines() if '"data"' in line]


def test_kept_page_ends_with_an_erasure_and_with_its_event_type(tmp_path: Path) -> None:
    with cached(f"sqlite:///{tmp_path}/hub.db", tmp_path, "--cache-ttl", "1s") as (http, proxy):
        feed = create(http)
        feed.publish_lines({"data": {"n": n}, "key": f"k{n}"} for n in range(100))
        path = f"{feed.path}?n=1&cursor0=_first&pagesizehint=20"
        second = f"{path.replace('_first', json.loads(http.get(path).text.splitlines()[-1])['cursor'])}"
        before = proxy.get(second)
        hit = proxy.get(second)
        begun = http.post(f"/event-types/{feed.name}/erasures", json={"key": "k25"}).json()["id"]
        until(lambda: http.get(f"/event-types/{feed.name}/erasures/{begun}").json()["state"] == "finished")

        until(lambda: numbers_of(proxy.get(second)) != numbers_of(before))
        after = [proxy.get(second) for _ in range(20)]
        assert http.delete(f"/event-types/{feed.name}").status_code == 200
        until(lambda: proxy.get(second).status_code == 404)
        dropped = [proxy.get(second) for _ in range(20)]

    assert (before.headers["x-cache-status"], hit.headers["x-cache-status"]) == ("MISS", "HIT")
    assert "x-flow-id" not in hit.headers
    assert hit.headers["date"] == before.headers["date"]
    assert numbers_of(before) == numbers_of(hit) == [*range(20, 40)]
    assert all(25 not in numbers_of(each) for each in after)
    assert {each.status_code for each in dropped} == {404}


def test_page_at_the_end_and_long_poll_pass_the_cache_by(tmp_path: Path) -> None:
    with cached(f"sqlite:///{tmp_path}/hub.db", tmp_path) as (http, proxy):
        feed = create(http)
        feed.publish(*({"n": n} for n in range(30)))
        end = f"{feed.path}?n=1&cursor0=_first"
        found = [numbers_of(proxy.get(end)), numbers_of(proxy.get(f"{end}&wait=1"))]
        feed.publish({"n": 30})
        found += [numbers_of(proxy.get(end)), numbers_of(proxy.get(f"{end}&wait=1"))]

    assert found == [[*range(30)]] * 2 + [[*range(31)]] * 2


def a_list(*names: str) -> list[dict[str, str]]:
    return [{"data_type": "*" if name == "*" else "service", "value": name} for name in names]


@pytest.mark.parametrize(("which", "anonymous"), [(0, 200), (1, 401)], ids=["plain", "asks for rights"])
def test_cache_gives_nobody_what_only_others_may_read(tmp_path: Path, which: int, anonymous: int) -> None:
    url, name = f"sqlite:///{tmp_path}/hub.db", f"test.{uuid.uuid4().hex}"
    options = ["--auth", "token", "--admin", "service:root"]
    with cached(url, tmp_path, *options, which=which) as (http, proxy):
        hub = Hub(open_store(url))
        tokens = {each: hub.admin.tokens.create(Caller("service", each)) for each in ("root", "one", "two", "stranger")}
        headers = {each: {"Authorization": f"Bearer {token.secret}"} for each, token in tokens.items()}
        http.headers.update(headers["root"])
        lists = {each: a_list("root") for each in ("admins", "writers")}
        definition = an_event_type(name, authorization=lists | {"readers": a_list("root", "one", "two")})
        assert http.post("/event-types", json=definition).status_code == 201
        feed = Served(http, name, 1)
        feed.publish(*({"n": n} for n in range(50)))
        cursor = json.loads(http.get(f"{feed.path}?n=1&cursor0=_first&pagesizehint=20").text.splitlines()[-1])["cursor"]
        path = f"{feed.path}?n=1&cursor0={cursor}&pagesizehint=20"

        def get(caller: str | None) -> tuple[int, str | None]:
            answer = proxy.get(path, headers=headers[caller] if caller else {})
            return answer.status_code, answer.headers.get("x-cache-status")

        private = [get(each) for each in ("one", "one", "two", "stranger", None)]
        lists["readers"] = a_list("*")
        assert http.put(f"/event-types/{name}", json=definition | {"authorization": lists}).status_code == 200
        public = [get(each) for each in ("one", "two", "stranger", None)]
        hub.admin.tokens.revoke(tokens["two"].token.id)
        if which:
            until(lambda: get("two")[0] == 401)
        hub.stop()

    assert [status for status, _ in private] == [200, 200, 200, 403, 401]
    assert {cache for status, cache in private if status == 200} == {"MISS"}
    assert public[:3] == [(200, "MISS"), (200, "HIT"), (200, "HIT")]
    assert public[3][0] == anonymous
