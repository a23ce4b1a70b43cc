"""The hub as part of somebody else's application."""

import ast
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from penstock.testing.factories import an_event_type
from penstock.testing.port import free_port
from tests.served import Page, Served, page_of, problem_of, until

ROOT = Path(__file__).parents[2]
STARTED = (ROOT / "examples", "mounted_fastapi:app")
UNSTARTED = (ROOT / "tests/server", "unstarted_shop:app")


class Shop:
    """A running application."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.http = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=90)

    def order(self, customer: str) -> httpx2.Response:
        return self.http.post("/orders", json={"customer": customer})

    def read(self, cursor: str = "_first", **arguments: str | int) -> Page:
        given = {"n": 1, "cursor0": cursor, "pagesizehint": 10_000} | arguments
        return page_of(self.http.get("/events/feeds/order.placed", params=given))

    def metric(self, name: str) -> float:
        text = self.http.get("/events/metrics").text
        return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")))

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=300)


@contextmanager
def running(app: tuple[Path, str], folder: Path, *arguments: str) -> Iterator[Shop]:
    """Run an application as its users would, in *folder*."""
    port = free_port()
    uvicorn = [sys.executable, "-m", "uvicorn", "--app-dir", str(app[0]), "--port", str(port), "--no-access-log"]
    environment = os.environ | {"PYTHONWARNINGS": "error::ResourceWarning"}
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen([*uvicorn, *arguments, app[1]], cwd=folder, stdout=log, stderr=log, env=environment)
    shop = Shop(process, port)
    try:
        until(lambda: process.poll() is not None or answers(shop))
        assert process.poll() is None, (folder / "log").read_text()
        yield shop
    finally:
        shop.http.close()
        process.kill()
        process.wait()


def answers(shop: Shop) -> bool:
    try:
        return shop.http.get("/openapi.json").status_code == 200
    except httpx2.TransportError:
        return False


def create_event_type(shop: Shop) -> None:
    assert shop.http.post("/events/event-types", json=an_event_type("order.placed")).status_code == 201


def test_the_example_commits_state_and_event_together(tmp_path: Path) -> None:
    with running(STARTED, tmp_path) as shop:
        create_event_type(shop)
        assert [shop.order(name).status_code for name in ("Ada", "Mallory", "Grace")] == [201, 403, 201]
        assert [event["customer"] for event in shop.read().events] == ["Ada", "Grace"]
        assert shop.http.get("/orders").json() == {"orders": 2}
    with running(STARTED, tmp_path) as shop:
        assert [event["customer"] for event in shop.read().events] == ["Ada", "Grace"]


def test_the_commands_at_the_head_of_the_example_do_what_they_are_for(tmp_path: Path) -> None:
    head = ast.get_docstring(ast.parse((STARTED[0] / "mounted_fastapi.py").read_text())) or ""
    commands = head[head.index("\ncurl ") :]
    with running(STARTED, tmp_path) as shop:
        asked = commands.replace("curl ", "curl -sS --fail-with-body ").replace(
            "localhost:8000", shop.http.base_url.netloc.decode()
        )
        told = subprocess.run(["bash", "-euc", asked], capture_output=True, text=True, timeout=60, check=False)
    assert (told.returncode, told.stderr) == (0, ""), told.stdout
    assert '"customer":"Ada"' in told.stdout


def test_what_holds_for_every_request_holds_below_the_path_too(tmp_path: Path) -> None:
    with running(STARTED, tmp_path) as shop:
        create_event_type(shop)
        for path in ("/events/event-types", "/events/event-types/", "/events/feeds/order.placed/", "/events/"):
            answer = shop.http.get(path, headers={"X-Flow-Id": "mine"})
            assert (answer.status_code, answer.headers["x-flow-id"]) == (200, "mine")
        assert shop.http.get("/events/").json()["event_types"] == "/events/event-types"
        problem_of(shop.http.get("/events/feeds//x"), 400, "bad-parameter")
        problem_of(shop.http.get("/events/version", headers={"Content-Encoding": "gzip"}), 406, "encoding-refused")
        assert "x-flow-id" not in shop.http.get("/orders").headers


def test_an_order_wakes_who_waits_for_it(tmp_path: Path) -> None:
    with running(STARTED, tmp_path) as shop, ThreadPoolExecutor(1) as pool:
        create_event_type(shop)
        future = pool.submit(shop.read, "_last", wait=60)
        until(lambda: shop.metric("penstock_waiters") == 1)
        shop.order("Ada")
        assert [event["customer"] for event in future.result(timeout=300).events] == ["Ada"]


def test_a_hub_whose_lifespan_nobody_runs_starts_on_its_first_request(tmp_path: Path) -> None:
    with running(UNSTARTED, tmp_path) as shop:
        assert not (tmp_path / "shop.db").exists()
        with ThreadPoolExecutor(8) as pool:  # The first requests come all at once.
            assert {
                f.result().status_code for f in [pool.submit(shop.http.get, "/events/event-types") for _ in range(8)]
            } == {200}
        create_event_type(shop)
        feed = Served(shop.http, "order.placed", 1)
        feed.path = "/events" + feed.path
        feed.publish_ids(range(3))
        assert shop.read().ids == [0, 1, 2]
    with running(UNSTARTED, tmp_path) as shop:
        assert shop.read().ids == [0, 1, 2]


@pytest.mark.parametrize("app", [STARTED, UNSTARTED], ids=["with lifespan", "without"])
def test_waits_end_when_the_server_is_told_to_stop(tmp_path: Path, app: tuple[Path, str]) -> None:
    with running(app, tmp_path) as shop, ThreadPoolExecutor(3) as pool:
        create_event_type(shop)
        futures = [pool.submit(shop.read, "_last", wait=60) for _ in range(3)]
        until(lambda: shop.metric("penstock_waiters") == 3)
        assert shop.stop() in (0, -signal.SIGTERM)
        assert all(future.result(timeout=300).cursor for future in futures)
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_several_workers_share_one_sqlite_file(tmp_path: Path) -> None:
    with running(STARTED, tmp_path, "--workers", "3") as shop, ThreadPoolExecutor(9) as pool:
        create_event_type(shop)
        customers = [f"customer {number}" for number in range(90)]
        answered = list(pool.map(order_on_a_connection_of_its_own, [shop] * 90, customers))
        assert answered == [201] * 90
        events = shop.read().events
        assert sorted(event["customer"] for event in events) == sorted(customers)
        assert sorted(event["order_id"] for event in events) == list(range(1, 91))
        assert [event["order_id"] for event in events] == sorted(event["order_id"] for event in events)
        cursor = shop.read().cursor
        futures = [pool.submit(wait_on_a_connection_of_its_own, shop, cursor) for _ in range(6)]
        shop.order("the last")
        assert [future.result(timeout=300) for future in futures] == [["the last"]] * 6
        futures = [pool.submit(wait_on_a_connection_of_its_own, shop, shop.read().cursor) for _ in range(6)]
        time.sleep(1)  # The workers do not tell how many wait at each.
        shop.stop()
        ends = [future.exception(timeout=20) or future.result() for future in futures]
        assert [] in ends
        for end in ends:  # A wait ends with nothing, a connection that came too late is refused.
            assert end == [] or isinstance(end, httpx2.ConnectError)
    assert "Traceback" not in (tmp_path / "log").read_text()


def order_on_a_connection_of_its_own(shop: Shop, customer: str) -> int:
    return httpx2.post(shop.http.base_url.join("/orders"), json={"customer": customer}, timeout=60).status_code


def wait_on_a_connection_of_its_own(shop: Shop, cursor: str) -> list[str]:
    query = f"n=1&cursor0={cursor}&wait=60"
    page = page_of(httpx2.get(shop.http.base_url.join(f"/events/feeds/order.placed?{query}"), timeout=90))
    return [event["customer"] for event in page.events]


def test_a_mounted_hub_describes_itself_where_it_is(tmp_path: Path) -> None:
    with running(STARTED, tmp_path) as shop:
        document = shop.http.get("/events/openapi.json").json()
        assert document["servers"] == [{"url": "/events"}]
        assert "/feeds/{event_type}" in document["paths"]
        assert "openapi.json" in shop.http.get("/events/docs").text
        for root in ("/events", "/events/"):
            told = shop.http.get(root, follow_redirects=True).json()
            assert (told["name"], told["docs"]) == ("penstock", "/events/docs")
        assert shop.http.get("/events/nowhere").json()["hint"] == "GET /events/docs shows what there is."
        problem_of(shop.http.get("/events/feeds/nowhere"), 404, "event-type-not-found")
        assert shop.http.get("/events/nowhere").json()["status"] == 404
        assert shop.http.get("/nowhere").json() == {"detail": "Not Found"}  # The application's own.
