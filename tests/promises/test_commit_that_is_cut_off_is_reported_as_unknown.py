"""The connection to PostgreSQL breaks at a COMMIT: the answer says that nobody knows whether it took place."""

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any, get_args

import pytest

from penstock.testing.factories import an_event_type
from penstock.testing.live_hub import LiveHub, live_hub
from penstock.testing.postgres import PostgresCluster
from tests.promises.cut_line import CutLine, Moment
from tests.promises.scene import (
    Remote,
    assert_dense,
    assert_outbox_is_empty,
    commit_to_outbox,
    until,
    waiting_for_locks,
)

APPENDING = b"INSERT INTO penstock_event "
MOVING = b"DELETE FROM penstock_outbox"
MOMENTS = get_args(Moment)
STORED_ANYWAY = {"before": False, "after": True, "late": True}


@pytest.fixture(scope="module")
def url(postgres_cluster: PostgresCluster) -> str:
    return postgres_cluster.create_database()


@pytest.fixture(scope="module")
def line(url: str) -> Iterator[CutLine]:
    with CutLine(url) as line:
        yield line


@pytest.fixture(scope="module")
def hub(line: CutLine) -> Iterator[LiveHub]:
    with live_hub(line.url) as hub:
        yield hub


@pytest.fixture
def remote(hub: LiveHub) -> Iterator[Remote]:
    """A feed of the test's own."""
    with closing(Remote(hub.port, f"test.{uuid.uuid4().hex}")) as remote:
        remote.create()
        yield remote


@pytest.mark.parametrize("moment", MOMENTS)
def test_publish_is_answered_with_an_unknown_outcome_and_the_next_one_waits_for_it(
    remote: Remote, hub: LiveHub, line: CutLine, url: str, moment: Moment
) -> None:
    assert remote.publish({"n": 0})[0] == 200
    cut = line.cut(moment, APPENDING)

    status, problem = remote.publish({"n": 1}, {"n": 2})

    assert (status, problem["type"]) == (500, "urn:penstock:problem:outcome-unknown")
    assert cut.made.is_set()
    with ThreadPoolExecutor(1) as threads:
        following = threads.submit(publish_in_the_end, hub, remote.name, {"n": 3})
        if moment == "late":
            until(lambda: waiting_for_locks(url), "the next publish waits for the one of which nobody knows")
            cut.let_go.set()
        following.result()
    stored = [1, 2] if STORED_ANYWAY[moment] else []
    assert [each["n"] for each in read_in_the_end(remote)] == [0, *stored, 3]
    assert_dense(url)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_each_of_many_publishers_has_a_true_answer(
    remote: Remote, hub: LiveHub, line: CutLine, url: str, moment: Moment
) -> None:
    def publish(who: int) -> list[tuple[tuple[int, int], int, str]]:
        told = []
        with closing(Remote(hub.port, remote.name)) as mine:
            for n in range(20):
                if who == n == 5:
                    line.cut(moment, APPENDING)
                status, said = mine.publish({"by": who, "n": n})
                told.append(((who, n), status, said.get("type", "")))
        return told

    with ThreadPoolExecutor(8) as threads:
        told = [each for work in [threads.submit(publish, who) for who in range(8)] for each in work.result()]

    stored = [(each["by"], each["n"]) for each in read_in_the_end(remote)]
    assert len(stored) == len(set(stored))
    assert {status for _, status, _ in told} <= {200, 500, 503}
    unknown = [who for who, status, kind in told if status == 500 and kind.endswith(":outcome-unknown")]
    assert [who for who, status, _ in told if status == 500] == unknown != []
    assert {who for who, status, _ in told if status == 200} == set(stored) - set(unknown)
    assert set(unknown) & set(stored) == (set(unknown) if STORED_ANYWAY[moment] else set())
    assert_dense(url)


@pytest.mark.parametrize("moment", MOMENTS)
def test_outbox_is_published_once_and_no_read_is_short(
    remote: Remote, hub: LiveHub, line: CutLine, url: str, moment: Moment
) -> None:
    cut = line.cut(moment, MOVING)
    rows = [{"n": n} for n in range(50)]
    answers: list[tuple[int, Any]] = []

    def read() -> None:
        with closing(Remote(hub.port, remote.name)) as mine:
            while 200 not in [status for status, _ in answers[-4:]]:
                status, body, headers = mine.ask("GET", f"{mine.path}?n=1&cursor0=_first")
                answers.append((status, body if status == 200 else headers["Retry-After"]))

    commit_to_outbox(url, *rows, name=remote.name)
    with ThreadPoolExecutor(3) as threads:
        reading: list[Future[None]] = [threads.submit(read) for _ in range(3)]
        assert cut.made.wait(300)
        if moment == "late":
            until(lambda: waiting_for_locks(url), "the next move waits for the one of which nobody knows")
            cut.let_go.set()
        for each in reading:
            each.result()

    assert {status for status, _ in answers} <= {200, 503}
    assert all(int(wait) > 0 for status, wait in answers if status == 503)
    for body in (body for status, body in answers if status == 200):
        assert [json.loads(each).get("data") for each in body.splitlines()][:-1] == rows
    assert remote.publish({"n": "after"})[0] == 200
    assert remote.all() == [*rows, {"n": "after"}]
    assert_outbox_is_empty(url)
    assert_dense(url)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_change_of_an_event_type_is_answered_with_an_unknown_outcome(
    remote: Remote, line: CutLine, moment: Moment
) -> None:
    name = f"other.{moment}"
    body = json.dumps(an_event_type(name)).encode()
    for method, path, having, then in [
        ("POST", "/event-types", b"INSERT INTO penstock_event_type", (404, 200)),
        ("DELETE", f"/event-types/{name}", b"DELETE FROM penstock_event_type", (200, 404)),
    ]:
        line.cut(moment, having)
        status, said, _ = remote.ask(method, path, body if method == "POST" else None)

        assert (status, json.loads(said)["type"]) == (500, "urn:penstock:problem:outcome-unknown")
        found = status_in_the_end(remote, f"/event-types/{name}")
        assert found == then[STORED_ANYWAY[moment]]
        if not STORED_ANYWAY[moment]:
            assert remote.ask(method, path, body if method == "POST" else None)[0] in (200, 201)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_read_that_stores_a_cursor_is_503_and_may_be_repeated(remote: Remote, line: CutLine, moment: Moment) -> None:
    remote.publish({"n": 0})
    cut = line.cut(moment, b"INSERT INTO penstock_position")
    asking = f"{remote.path}?n=1&cursor0=_first&cursorset=mine"

    status, said, headers = remote.ask("GET", asking)

    assert cut.made.is_set()
    assert (status, json.loads(said)["type"]) == (503, "urn:penstock:problem:database-unavailable")
    assert int(headers["Retry-After"]) > 0
    assert status_in_the_end(remote, asking) == 200
    assert remote.ask("GET", f"{remote.path}?n=1&resume=0&cursorset=mine")[0] == 200


def publish_in_the_end(hub: LiveHub, name: str, *events: Any) -> None:
    """Publish, again while the answer is 503."""
    with closing(Remote(hub.port, name)) as remote:
        while (status := remote.publish(*events)[0]) == 503:
            pass
    assert status == 200


def read_in_the_end(remote: Remote) -> list[Any]:
    """Read the whole feed once the hub has its database again."""
    assert status_in_the_end(remote, f"{remote.path}?n=1&cursor0=_first") == 200
    return remote.all()


def status_in_the_end(remote: Remote, path: str) -> int:
    """Ask until the answer is not 503, and return its status."""
    while True:
        status, _, headers = remote.ask("GET", path)
        if status != 503:
            return status
        assert int(headers["Retry-After"]) > 0
