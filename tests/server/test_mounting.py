"""The hub mounted in an application, as `examples/mounted_fastapi.py` does it."""

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from penstock.testing.factories import an_event_type
from penstock.testing.port import free_port
from tests.exhaustive import exhaustive
from tests.served import Page, Served, page_of, problem_of, until

ROOT = Path(__file__).parents[2]
STARTED = (ROOT / "examples", "mounted_fastapi:app")
UNSTARTED = (ROOT / "tests/server", "unstarted_shop:app")


class Shop:
    """A running application."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.http = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=300)

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
    """Run an application with Uvicorn in *folder*."""
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


@pytest.fixture(scope="module")
def first_order(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shop, str]]:
    """The example after the commands of its docstring, which place an order, and their output."""
    docstring = ast.get_docstring(ast.parse((STARTED[0] / "mounted_fastapi.py").read_text())) or ""
    commands = docstring[docstring.index("\ncurl ") :].replace("curl ", "curl -sS --fail-with-body ")
    with running(STARTED, tmp_path_factory.mktemp("shop")) as shop:
        script = commands.replace("localhost:8000", shop.http.base_url.netloc.decode())
        done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, timeout=300, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        yield shop, done.stdout


@pytest.fixture
def shop(first_order: tuple[Shop, str]) -> Shop:
    return first_order[0]


def test_commands_of_the_example_show_the_event_of_an_order(first_order: tuple[Shop, str]) -> None:
    assert '"customer":"Ada"' in first_order[1]


def test_order_and_its_event_are_committed_together(shop: Shop) -> None:
    before, cursor = shop.http.get("/orders").json()["orders"], shop.read().cursor
    assert [shop.order(name).status_code for name in ("Mallory", "Grace")] == [403, 201]
    assert [event["customer"] for event in shop.read(cursor).events] == ["Grace"]
    assert shop.http.get("/orders").json() == {"orders": before + 1}


def test_order_wakes_a_waiting_reader(shop: Shop) -> None:
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(shop.read, "_last", wait=60)
        until(lambda: shop.metric("penstock_waiters") == 1)
        shop.order("Ada")
        assert [event["customer"] for event in future.result(timeout=300).events] == ["Ada"]


def test_rules_of_every_request_hold_below_the_path_of_the_mount(shop: Shop) -> None:
    for path in ("/events/event-types", "/events/event-types/", "/events/feeds/order.placed/", "/events/"):
        answer = shop.http.get(path, headers={"X-Flow-Id": "mine"})
        assert (answer.status_code, answer.headers["x-flow-id"]) == (200, "mine")
    assert "x-flow-id" not in shop.http.get("/orders").headers
    problem_of(shop.http.get("/events/feeds//x"), 400, "bad-parameter")
    problem_of(shop.http.get("/events/feeds/nowhere"), 404, "event-type-not-found")
    problem_of(shop.http.get("/events/version", headers={"Content-Encoding": "gzip"}), 406, "encoding-refused")
    nowhere = shop.http.get("/events/nowhere").json()
    assert (nowhere["status"], nowhere["hint"]) == (404, "GET /events/docs shows what there is.")
    assert shop.http.get("/nowhere").json() == {"detail": "Not Found"}  # The application's own.


def test_mounted_hub_describes_itself_below_its_path(shop: Shop) -> None:
    document = shop.http.get("/events/openapi.json").json()
    assert document["servers"] == [{"url": "/events"}]
    assert "/feeds/{event_type}" in document["paths"]
    assert "openapi.json" in shop.http.get("/events/docs").text
    for root in ("/events", "/events/"):
        found = shop.http.get(root, follow_redirects=True).json()
        assert (found["name"], found["docs"]) == ("penstock", "/events/docs")
        assert found["event_types"] == "/events/event-types"


@pytest.mark.parametrize(
    "app",
    # `test_hub_starts_once_its_database_is_there` of test_asgi.py starts without it, too.
    [pytest.param(STARTED, id="with lifespan"), exhaustive(UNSTARTED, id="without")],
)
def test_application_that_stops_ends_waits_and_has_its_events_when_it_starts_again(
    tmp_path: Path, app: tuple[Path, str]
) -> None:
    with running(app, tmp_path) as shop, ThreadPoolExecutor(8) as pool:
        assert (tmp_path / "shop.db").exists() == (app is STARTED), "without its lifespan it starts on a request"
        requests = [pool.submit(shop.http.get, "/events/event-types") for _ in range(8)]
        assert {request.result().status_code for request in requests} == {200}
        create_event_type(shop)
        feed = Served(shop.http, "order.placed", 1)
        feed.path = "/events" + feed.path
        feed.publish_ids(range(3))
        waits = [pool.submit(shop.read, "_last", wait=60) for _ in range(3)]
        until(lambda: shop.metric("penstock_waiters") == 3)
        assert shop.stop() in (0, -signal.SIGTERM)
        assert all(wait.result(timeout=300).cursor for wait in waits)
    assert "Traceback" not in (tmp_path / "log").read_text()
    with running(app, tmp_path) as shop:
        assert shop.read().ids == [0, 1, 2]


@pytest.mark.exhaustive
def test_several_workers_share_one_sqlite_file(tmp_path: Path) -> None:
    with running(STARTED, tmp_path, "--workers", "2") as shop, ThreadPoolExecutor(8) as pool:
        create_event_type(shop)
        customers = [f"customer {number}" for number in range(60)]
        assert list(pool.map(order_on_a_new_connection, [shop] * 60, customers)) == [201] * 60
        events = shop.read().events
        assert sorted(event["customer"] for event in events) == sorted(customers)
        assert [event["order_id"] for event in events] == list(range(1, 61))
        cursor = shop.read().cursor
        waits = [pool.submit(wait_on_a_new_connection, shop, cursor) for _ in range(6)]
        shop.order("the last")
        assert [wait.result(timeout=300) for wait in waits] == [["the last"]] * 6
        assert shop.stop() in (0, -signal.SIGTERM)
    assert "Traceback" not in (tmp_path / "log").read_text()


def order_on_a_new_connection(shop: Shop, customer: str) -> int:
    return httpx2.post(shop.http.base_url.join("/orders"), json={"customer": customer}, timeout=300).status_code


def wait_on_a_new_connection(shop: Shop, cursor: str) -> list[str]:
    query = f"n=1&cursor0={cursor}&wait=60"
    page = page_of(httpx2.get(shop.http.base_url.join(f"/events/feeds/order.placed?{query}"), timeout=300))
    return [event["customer"] for event in page.events]
