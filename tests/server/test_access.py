"""Callers are known by their tokens, and held to their rights while they read, on every hub of a database."""

import asyncio
import json
import socket
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import msgspec
import pytest
from starlette.types import Scope

from penstock.client import Client, Replay
from penstock.core.access import Caller
from penstock.core.events.event import NewEvent
from penstock.errors import TooManyRequests, Unauthenticated
from penstock.hub.admin.tokens import NewToken
from penstock.hub.hub import Hub
from penstock.server.authentication.authentication import (
    FAILURE_INTERVAL,
    FREE_FAILURES,
    WAIT_MAX,
    Authentication,
    FailureLimiter,
)
from penstock.storage import open_store
from penstock.storage.groups import Position
from penstock.testing.factories import an_event_type
from penstock.testing.live_hub import LiveHub, live_hub
from tests.served import problem_of, until

WAIT = 50
"""Seconds that readers wait for events: who ends earlier was ended.

The promise is a second. tests/unit/hub/log/test_revocation_is_noticed.py holds the poller to it by a simulated clock:
here a loaded machine may take longer, so this shows only that the reader has not ended by itself.
"""


def a_list(*names: str) -> list[dict[str, str]]:
    return [{"data_type": "service", "value": name} for name in names]


class Secured(NamedTuple):
    """Two hubs over one database that know callers by tokens."""

    hubs: tuple[LiveHub, LiveHub]
    direct: Hub
    """A third one, without HTTP."""
    logs: tuple[Path, Path]
    """The logs of the hubs."""

    def create_token(self, name: str) -> NewToken:
        return self.direct.admin.tokens.create(Caller("service", name))

    def http(self, name: str, hub: int = 0, token: str | None = None) -> httpx2.Client:
        """Return a client that sends a token of the caller *name*."""
        secret = token or self.create_token(name).secret
        headers = {"Authorization": f"Bearer {secret}"}
        return httpx2.Client(base_url=self.hubs[hub].url, headers=headers, timeout=300, verify=False)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    if request.param == "sqlite":
        url = f"sqlite:///{folder}/hub.db"
    else:
        url = request.getfixturevalue("postgres_cluster").create_database()
    options = ["--auth", "token", "--admin", "service:root"]
    with ExitStack() as stack:
        logs = (folder / "0.log", folder / "1.log")
        hubs = [stack.enter_context(live_hub(url, log=log, options=options)) for log in logs]
        direct = Hub(open_store(url))
        stack.callback(direct.stop)
        yield Secured((hubs[0], hubs[1]), direct, logs)


@pytest.fixture
def root(secured: Secured) -> Iterator[httpx2.Client]:
    with secured.http("root") as http:
        yield http


def create(http: httpx2.Client, **authorization: list[dict[str, str]]) -> str:
    """Create an event type with one event, whose lists name root unless they are given."""
    name = f"test.{uuid.uuid4().hex}"
    lists = {each: a_list("root") for each in ("admins", "readers", "writers")} | authorization
    assert http.post("/event-types", json=an_event_type(name, authorization=lists)).status_code == 201
    assert http.post(f"/feeds/{name}", content=b'{"data":{"id":1}}').status_code == 200
    return name


def committing(*names: str) -> dict[str, Any]:
    """Return a commit of the first position of each event type, by a processor."""
    return {"kind": "processor", "items": [{"event_type": each, "partition": 0, "offset": 1} for each in names]}


def test_caller_who_may_only_write_goes_on_with_a_series(secured: Secured, root: httpx2.Client) -> None:
    name = create(root, writers=a_list("writer", "root"))
    token = secured.create_token("writer").secret
    series = [NewEvent(msgspec.Raw(b'{"id":%d}' % number)) for number in range(30)]
    with Client(secured.hubs[0].url, auth=token) as client:
        for length, skipped in ((10, 0), (30, 10), (30, 30)):
            done = Replay(client, name, "series").publish(series[:length])
            assert (done.count, done.skipped) == (length, skipped)

    assert len(root.get(f"/feeds/{name}?n=1&cursor0=_first").text.splitlines()) == 1 + 30 + 1


# Those who wait are ended.


def wait_for_page(http: httpx2.Client, name: str, begun: threading.Event) -> str:
    cursor = json.loads(http.get(f"/feeds/{name}?n=1&cursor0=_last&pagesizehint=0").text)["cursor"]
    begun.set()
    answer = http.get(f"/feeds/{name}", params={"n": 1, "cursor0": cursor, "wait": WAIT})
    return f"{answer.status_code}"


def stream_events(http: httpx2.Client, name: str, begun: threading.Event) -> str:
    given = {"stream_timeout": WAIT, "batch_flush_timeout": 1, "stream_keep_alive_limit": WAIT}
    with http.stream("GET", f"/event-types/{name}/events", params=given) as answer:
        begun.set()
        lines = sum(1 for _ in answer.iter_lines())
    return "ended" if lines < WAIT else "went on"


def stream_subscription(http: httpx2.Client, name: str, begun: threading.Event) -> str:
    subscription = http.post("/subscriptions", json={"owning_application": "shop", "event_types": [name]}).json()["id"]
    given = {"stream_timeout": WAIT, "batch_flush_timeout": 1}
    with http.stream("GET", f"/subscriptions/{subscription}/events", params=given) as answer:
        begun.set()
        last = [*answer.iter_lines()][-1]
    return "ended" if "denied" in last or "credential" in last else last


READERS = {"long poll": wait_for_page, "stream": stream_events, "subscription": stream_subscription}


def revoke_token(secured: Secured, token: NewToken, root: httpx2.Client, name: str) -> None:
    del root, name
    secured.direct.admin.tokens.revoke(token.token.id)


def take_right_away(secured: Secured, token: NewToken, root: httpx2.Client, name: str) -> None:
    del secured, token
    definition = root.get(f"/event-types/{name}").json()
    definition["authorization"] |= {"readers": a_list("root"), "writers": a_list("root")}
    assert root.put(f"/event-types/{name}", json=definition).status_code == 200


@pytest.mark.parametrize("end", [revoke_token, take_right_away])
def test_reader_at_another_hub_is_ended_once_it_may_not_read(secured: Secured, root: httpx2.Client, end: Any) -> None:
    name = create(root, readers=a_list("reader", "other"))
    token = secured.create_token("reader")
    begun = {each: threading.Event() for each in READERS}
    with ThreadPoolExecutor(len(READERS)) as threads, ExitStack() as stack:
        ended = {
            each: threads.submit(read, stack.enter_context(secured.http("reader", 1, token.secret)), name, begun[each])
            for each, read in READERS.items()
        }
        assert all(each.wait(300) for each in begun.values())
        end(secured, token, root, name)
        found = {each: result.result(300) for each, result in ended.items()}

    if end is revoke_token:
        reason = f'"reason":"token revoked","token":"{token.token.id}"'
        until(lambda: secured.logs[1].read_text(encoding="utf-8").count(reason) == len(READERS))
    status = "401" if end is revoke_token else "403"
    assert found == {"long poll": status, "stream": "ended", "subscription": "ended"}
    with secured.http("other", 1) as other:
        expected = 200 if end is revoke_token else 403
        assert other.get(f"/feeds/{name}?n=1&cursor0=_first").status_code == expected


BACKLOG = [b'{"data":{"text":"%s"}}' % (b"x" * 900_000)] * 12
"""More than the buffers of a connection hold."""


def test_reader_that_takes_nothing_is_ended_once_it_may_not_read(secured: Secured, root: httpx2.Client) -> None:
    name = create(root, readers=a_list("reader"))
    for each in BACKLOG:
        assert root.post(f"/feeds/{name}", content=each).status_code == 200
    token, hub = secured.create_token("reader"), secured.hubs[1]
    with secured.http("reader", 1, token.secret) as http, ExitStack() as stack:
        given = {"owning_application": "shop", "event_types": [name], "read_from": "begin"}
        subscription = http.post("/subscriptions", json=given).json()["id"]
        heads = (
            f"/feeds/{name}?n=1&cursor0=_first HTTP/1.1",
            f"/feeds/{name}?n=1&cursor0=_first HTTP/1.1\r\nAccept: application/vnd.apache.arrow.stream",
            f'/event-types/{name}/events HTTP/1.1\r\nX-Nakadi-Cursors: [{{"partition":"0","offset":"BEGIN"}}]',
            f"/subscriptions/{subscription}/events HTTP/1.1",
        )
        for head in heads:
            slow = stack.enter_context(socket.socket())
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.settimeout(300)
            slow.connect(("127.0.0.1", hub.port))
            slow.sendall(f"GET {head}\r\nHost: localhost\r\nAuthorization: Bearer {token.secret}\r\n\r\n".encode())
            assert slow.recv(15) == b"HTTP/1.1 200 OK"
        revoke_token(secured, token, root, name)

        reason = f'"reason":"token revoked","token":"{token.token.id}"'
        until(lambda: secured.logs[1].read_text(encoding="utf-8").count(reason) == len(heads))
        assert '"event":"defect"' not in secured.logs[1].read_text(encoding="utf-8")


LINE = b'{"data":{"id":2}}'
SLOW = {
    "plain": ("/feeds/{name}", LINE),
    "large": ("/feeds/{name}", LINE + b" " * 20_000),
    "array": ("/event-types/{name}/events", b'[{"id": 2}]'),
}


@pytest.mark.parametrize("end", [revoke_token, take_right_away])
@pytest.mark.parametrize("kind", SLOW)
def test_body_whose_end_comes_after_its_sender_has_lost_the_right_is_refused(
    secured: Secured, root: httpx2.Client, end: Any, kind: str
) -> None:
    name = create(root, writers=a_list("writer", "root"), readers=a_list("writer", "root"))
    token, hub = secured.create_token("writer"), secured.hubs[0]
    path, body = SLOW[kind]
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token.secret}\r\n".format(name=name)
    with secured.http("writer", 0, token.secret) as http, socket.create_connection(("127.0.0.1", hub.port)) as slow:
        slow.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:-5])
        assert http.get(f"/feeds/{name}?n=1&cursor0=_first").status_code == 200
        end(secured, token, root, name)
        until(lambda: http.get(f"/feeds/{name}?n=1&cursor0=_first").status_code != 200)
        slow.sendall(body[-5:])
        status = slow.recv(1 << 16).split(b" ")[1]

    assert status == (b"401" if end is revoke_token else b"403")
    assert len(root.get(f"/feeds/{name}?n=1&cursor0=_first").text.splitlines()) == 2, "one event, and a cursor"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/event-types/{name}", b'{"name": "{name}", "category": "undefined", "owning_application": "other"}'),
        ("PUT", "/event-types/{name}/partition-count", b'{"partition_count": 8}'),
        ("POST", "/event-types/{name}/erasures", b'{"key": "k"}'),
        ("POST", "/event-types/{name}/events", b'[{"id": 2}]'),
        ("POST", "/feeds/{name}", LINE),
        ("POST", "/feeds/{name}", LINE + b" " * 20_000),
    ],
)
def test_body_that_began_before_its_event_type_was_created_does_nothing_to_it(
    secured: Secured, root: httpx2.Client, method: str, path: str, body: bytes
) -> None:
    name, token, hub = f"created.meanwhile-{uuid.uuid4().hex}", secured.create_token("stranger"), secured.hubs[1]
    body = body.replace(b"{name}", name.encode())
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token.secret}\r\n".format(name=name)
    with socket.create_connection(("127.0.0.1", hub.port), timeout=300) as slow:
        slow.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:-5])
        lists = {each: a_list("root") for each in ("admins", "readers", "writers")}
        assert root.post("/event-types", json=an_event_type(name, authorization=lists)).status_code == 201
        created = root.get(f"/event-types/{name}").json()
        with suppress(OSError):  # It may have been refused already.
            slow.sendall(body[-5:])
        status = slow.recv(1 << 16).split(b" ")[1]

    assert status in (b"403", b"404")
    assert root.get(f"/event-types/{name}").json() == created
    assert root.get(f"/event-types/{name}/erasures").json() == {"items": []}


@pytest.mark.parametrize("end", [revoke_token, take_right_away])
def test_publish_by_chunks_ends_once_its_sender_has_lost_the_right(
    secured: Secured, root: httpx2.Client, end: Any
) -> None:
    name = create(root, writers=a_list("writer", "root"))
    token = secured.create_token("writer")
    with secured.http("writer", 0, token.secret) as http, ThreadPoolExecutor(1) as threads:
        sending = threads.submit(http.post, f"/feeds/{name}?chunk=1", content=b"\n".join([LINE] * 20_000))
        until(lambda: len(root.get(f"/feeds/{name}?n=1&cursor0=_first").text.splitlines()) > 10)
        end(secured, token, root, name)
        answer = sending.result(300)

    problem = problem_of(answer, *((401, "unauthenticated") if end is revoke_token else (403, "access-denied")))
    assert 0 < problem["stored"] < 20_000


def test_right_that_was_just_given_holds_at_once_at_another_hub(secured: Secured, root: httpx2.Client) -> None:
    name = create(root)
    with secured.http("reader", 1) as reader:
        path = f"/feeds/{name}?n=1&cursor0=_first"
        problem = problem_of(reader.get(path), 403, "access-denied")
        assert (problem["operation"], problem["resource"]) == ("READ", f"event-type:{name}")
        definition = root.get(f"/event-types/{name}").json()
        definition["authorization"]["readers"] = a_list("reader")
        assert root.put(f"/event-types/{name}", json=definition).status_code == 200

        assert reader.get(path).status_code == 200


def test_event_type_that_was_just_created_is_closed_to_strangers_at_another_hub(
    secured: Secured, root: httpx2.Client
) -> None:
    with secured.http("stranger", 1) as stranger:
        for _ in range(20):
            name = create(root)
            assert stranger.get(f"/feeds/{name}?n=1&cursor0=_first").status_code == 403


# Lists show what one may see.


def test_lists_show_what_the_caller_may_see(secured: Secured, root: httpx2.Client) -> None:
    mine, theirs = create(root, readers=a_list("viewer")), create(root)
    for name in (mine, theirs):
        assert root.post(f"/groups/of-{name}/positions", json=committing(name)).status_code == 200, name
        lists = {"admins": a_list("root"), "readers": a_list("viewer" if name == mine else "root")}
        given = {"owning_application": name, "event_types": [name], "authorization": lists}
        assert root.post("/subscriptions", json=given).status_code == 201
    with secured.http("viewer") as viewer:
        event_types = {each["name"] for each in viewer.get("/event-types").json()}
        groups = {each["name"] for each in viewer.get("/groups?limit=1000").json()["items"]}
        subscriptions = {each["owning_application"] for each in viewer.get("/subscriptions").json()["items"]}

        assert event_types & {mine, theirs} == {mine}
        assert groups & {f"of-{mine}", f"of-{theirs}"} == {f"of-{mine}"}
        assert subscriptions & {mine, theirs} == {mine}
        assert viewer.get(f"/groups/of-{theirs}").status_code == 403
        assert viewer.get(f"/groups?event_type={theirs}").status_code == 403


def test_pages_of_groups_leave_nobody_out_and_name_none_that_is_hidden(secured: Secured, root: httpx2.Client) -> None:
    mine, theirs = create(root, readers=a_list("pager")), create(root)
    prefix = f"page-{uuid.uuid4().hex}"
    for number in range(6):
        commit = committing(theirs if number % 3 else mine)
        assert root.post(f"/groups/{prefix}-{number}/positions", json=commit).is_success
    with secured.http("pager") as pager:
        shown, page = [], f"/groups?limit=1&after={prefix}"
        while page:
            answer = pager.get(page).json()
            shown += [each["name"] for each in answer["items"]]
            page = (answer["_links"].get("next") or {}).get("href", "")
            assert not any(f"{prefix}-{number}" in page for number in (1, 2, 4, 5))

    assert [each for each in shown if each.startswith(prefix)] == [f"{prefix}-0", f"{prefix}-3"]


def test_group_of_several_event_types_shows_those_that_the_caller_may_see(
    secured: Secured, root: httpx2.Client
) -> None:
    mine, theirs = create(root, readers=a_list("half")), create(root)
    group = f"half-{uuid.uuid4().hex}"
    assert root.post(f"/groups/{group}/positions", json=committing(mine, theirs)).is_success
    with secured.http("half") as half:
        found = half.get(f"/groups/{group}").json()

    assert found["event_types"] == [mine]
    assert {each["event_type"] for each in found["positions"]} == {mine}


def test_dead_letters_are_read_by_administrators_alone(secured: Secured, root: httpx2.Client) -> None:
    name = create(root, readers=a_list("consumer"))
    given = {"owning_application": "shop", "event_types": [name], "consumer_group": uuid.uuid4().hex}
    policy = {
        "nakadi.zalando.org/subscription-unprocessable-event-policy": "DEAD_LETTER_QUEUE",
        "nakadi.zalando.org/subscription-max-event-send-count": "2",
    }
    path = "/feeds/nakadi.dead.letter.queue?n=1&cursor0=_first"
    with secured.http("consumer") as consumer:
        made = consumer.post("/subscriptions", json=given | {"annotations": policy})
        assert made.is_success, made.text

        assert root.get(path).status_code == 200
        problem_of(consumer.get(path), 403, "access-denied")


def test_existing_subscription_is_shown_to_those_alone_who_may_see_it(secured: Secured, root: httpx2.Client) -> None:
    name = create(root, readers=a_list("one", "two"))
    lists = {"admins": a_list("one"), "readers": a_list("one")}
    given = {"owning_application": "shop", "event_types": [name], "authorization": lists}
    with secured.http("one") as one, secured.http("two", 1) as two:
        assert one.post("/subscriptions", json=given).status_code == 201
        assert one.post("/subscriptions", json=given).status_code == 200
        problem_of(two.post("/subscriptions", json=given), 403, "access-denied")
        made = one.get(f"/subscriptions?event_type={name}").json()["items"][0]["id"]

        def list_shown(http: httpx2.Client) -> list[set[str]]:
            groups = http.get(f"/groups?event_type={name}").json()["items"]
            consumers = http.get(f"/event-types/{name}/consumers").json()["items"]
            return [{each["name"] for each in groups}, {each["group"] for each in consumers}]

        assert list_shown(one) == list_shown(root) == [{made}, {made}]
        assert list_shown(two) == [set(), set()]
        for path in (f"/groups/{made}", f"/groups/{made}/history"):
            assert (one.get(path).status_code, two.get(path).status_code) == (200, 403)


@pytest.mark.parametrize("start", ["limit=2", "limit=2&token=new"])
def test_pages_of_subscriptions_are_full_for_those_who_may_see_some_of_them(
    secured: Secured, root: httpx2.Client, start: str
) -> None:
    """Who sees three of nine gets the pages and links that somebody gets where there are three."""
    name = create(root, readers=a_list("few"))
    ids = []
    for number in range(9):
        lists = {each: a_list("root", *(["few"] if number % 4 == 0 else [])) for each in ("admins", "readers")}
        given = {"owning_application": f"app-{number}", "event_types": [name], "authorization": lists}
        made = root.post("/subscriptions", json=given)
        assert made.status_code == 201
        ids.append(made.json()["id"])

    def list_pages(http: httpx2.Client) -> list[list[str]]:
        pages, path = [], f"/subscriptions?event_type={name}&{start}"
        while path:
            body = http.get(path).json()
            pages.append([each["id"] for each in body["items"]])
            path = body["_links"].get("next", {}).get("href")
        return pages

    def cut(known: list[str]) -> list[list[str]]:
        in_order = sorted(known) if "token" in start else known[::-1]
        return [in_order[at : at + 2] for at in range(0, len(known), 2)]

    with secured.http("few") as few, secured.http("nobody") as nobody:
        assert list_pages(few) == cut(ids[::4])
        assert list_pages(nobody) == [[]]
        last = few.get(f"/subscriptions?event_type={name}&limit=2&offset=2").json()
        assert [each["id"] for each in last["items"]] == [ids[0]]
        assert last["_links"] == {"prev": {"href": f"/subscriptions?event_type={name}&offset=0&limit=2"}}
    assert list_pages(root) == cut(ids)


def test_list_at_another_hub_shows_no_event_type_that_was_just_created(secured: Secured, root: httpx2.Client) -> None:
    with secured.http("stranger", 1) as stranger:
        for _ in range(5):
            name = create(root)
            lists = {"admins": a_list("root"), "readers": a_list("root")}
            given = {"owning_application": name, "event_types": [name], "authorization": lists}
            assert root.post(f"/groups/new-{name}/positions", json=committing(name)).status_code == 200
            assert root.post("/subscriptions", json=given).status_code == 201
            for path in ("/event-types", "/groups?limit=1000", "/subscriptions?limit=1000"):
                assert name not in stranger.get(path).text, path


def test_event_types_of_the_hub_are_created_by_its_administrators(secured: Secured, root: httpx2.Client) -> None:
    name = f"nakadi.test.{uuid.uuid4().hex}"
    with secured.http("stranger") as stranger:
        lists = {each: a_list("stranger") for each in ("admins", "readers", "writers")}
        given = an_event_type(name, authorization=lists)
        for path in (f"/event-types/{name}/definition-check", "/event-types"):
            problem = problem_of(stranger.post(path, json=given), 403, "access-denied")
            assert (problem["operation"], problem["resource"]) == ("ADMINISTER", "hub")
            assert root.post(path, json=given).is_success


# Groups, cursor sets and producers belong to their first user.


def test_only_administrators_create_and_drop_event_types_while_features_forbid_it(
    secured: Secured, root: httpx2.Client
) -> None:
    """Root administers the hub, the caller `one` its own event type alone."""

    def switch(*, on: bool) -> None:
        for feature in ("disable_event_type_creation", "disable_event_type_deletion"):
            assert root.post("/settings/features", json={"feature": feature, "enabled": on}).status_code == 204

    names = [f"test.{uuid.uuid4().hex}" for _ in range(3)]
    with secured.http("one") as one:
        own = create(one, admins=a_list("one"), writers=a_list("one"))
        try:
            switch(on=True)
            problem_of(one.post("/event-types", json=an_event_type(names[0])), 501, "not-offered")
            assert (
                one.post(f"/event-types/{names[0]}/definition-check", json=an_event_type(names[0])).status_code == 501
            )
            assert one.delete(f"/event-types/{own}").status_code == 403
            assert root.post(f"/event-types/{names[1]}/definition-check", json=an_event_type(names[1])).is_success
            assert root.post("/event-types", json=an_event_type(names[1])).status_code == 201
            assert root.delete(f"/event-types/{own}").status_code == 200
        finally:
            switch(on=False)
        assert one.post("/event-types", json=an_event_type(names[2])).status_code == 201


WRONG_LISTS = {
    "authorization.reader": {"reader": a_list("one")},
    "authorization.readers[0].data_type": {"readers": [{"data_type": "team", "value": "a"}]},
    "authorization.readers[1].value": {"readers": [*a_list("one"), *a_list("service:two")]},
    "authorization.writers[0].value": {"writers": a_list("")},
    "authorization.admins[0].value": {"admins": [{"data_type": "*", "value": "one"}]},
}


@pytest.mark.parametrize("field", WRONG_LISTS)
def test_list_with_a_member_that_no_caller_can_be_is_refused(secured: Secured, root: httpx2.Client, field: str) -> None:
    """Nakadi asks its authorization plugin which attributes are valid; here the hub knows."""
    name = create(root, readers=a_list("one"))
    wrong = {"authorization": {each: a_list("root") for each in ("admins", "readers", "writers")} | WRONG_LISTS[field]}
    new, whole = an_event_type(f"{name}.new", **wrong), root.get(f"/event-types/{name}").json()
    path = f"/event-types/{name}"
    answers = [root.post("/event-types", json=new), root.put(path, json=whole | wrong)]
    answers.append(root.post(f"{path}/definition-check", json=whole | wrong))
    for answer in answers:
        assert problem_of(answer, 422, "invalid-event-type")["field"] == field
    subscription = {"owning_application": name, "event_types": [name]}
    answer = root.post("/subscriptions", json=subscription | wrong)
    assert problem_of(answer, 422, "invalid-subscription")["field"] == field
    made = root.post("/subscriptions", json=subscription).json()
    answer = root.put(f"/subscriptions/{made['id']}", json=made | wrong)
    assert problem_of(answer, 422, "invalid-subscription")["field"] == field
    answer = root.post("/settings/admins", json=wrong["authorization"])
    assert problem_of(answer, 422, "invalid-setting")["field"] == field.removeprefix("authorization.")


def test_list_from_before_the_hub_knew_its_callers_may_be_put_back(secured: Secured, root: httpx2.Client) -> None:
    name = f"test.{uuid.uuid4().hex}"
    teams = {each: [{"data_type": "team", "value": "a"}] for each in ("admins", "readers", "writers")}
    secured.direct.registry.create(an_event_type(name, authorization=teams))
    whole = root.get(f"/event-types/{name}").json()
    assert root.put(f"/event-types/{name}", json=whole | {"audience": "company-internal"}).status_code == 200


def test_consumer_group_belongs_to_its_first_user(secured: Secured, root: httpx2.Client) -> None:
    name = create(root, readers=a_list("one", "two"), admins=a_list("boss"))
    path = f"/groups/group-{name}/positions"
    commit = committing(name)
    reset = {"items": [{"event_type": name, "to": "earliest"}], "reason": "again"}
    with secured.http("one") as one, secured.http("two", 1) as two, secured.http("boss") as boss:
        assert one.post(path, json=commit).status_code == 200
        problem_of(two.post(path, json=commit), 403, "not-owner")
        problem_of(two.request("PATCH", path, json=reset), 403, "not-owner")
        problem_of(two.delete(f"/groups/group-{name}"), 403, "not-owner")
        assert one.post(path, json=commit).status_code == 200
        own = create(two, readers=a_list("two"), writers=a_list("two"), admins=a_list("two"))
        problem_of(two.post(path, json=committing(own)), 403, "not-owner")
        assert boss.delete(f"/groups/group-{name}").status_code == 204
        assert two.post(path, json=commit).status_code == 200


def test_consumer_group_of_dropped_event_types_stays_with_its_owner(secured: Secured, root: httpx2.Client) -> None:
    name = create(root, readers=a_list("one"))
    path = f"/groups/group-{name}"
    commit = committing(name)
    with secured.http("one") as one, secured.http("two", 1) as two:
        assert one.post(f"{path}/positions", json=commit).status_code == 200
        assert root.delete(f"/event-types/{name}").status_code == 200
        assert two.get(f"/feeds/{name}").status_code == 404  # The hub has heard of it.
        problem_of(two.delete(path), 403, "not-owner")
        assert one.delete(path).status_code == 204


def test_reset_tells_nothing_of_an_event_type_that_the_caller_may_not_read(
    secured: Secured, root: httpx2.Client
) -> None:
    hidden, mine = create(root), create(root, readers=a_list("one"))
    path = f"/groups/group-{mine}"
    commit = committing(mine)
    reset = {"items": [{"event_type": hidden, "slice": "", "partition": 0, "to": "latest"}], "reason": "to look"}
    with secured.http("one") as one:
        assert one.post(f"{path}/positions", json=commit).status_code == 200
        problem_of(one.patch(f"{path}/positions", json=reset), 403, "access-denied")
        assert root.patch(f"{path}/positions", json=reset).status_code == 200
        assert hidden in root.get(f"{path}/history").text
        assert hidden not in one.get(f"{path}/history").text


def test_pages_of_a_groups_history_are_full_for_those_who_may_see_some_of_it(
    secured: Secured, root: httpx2.Client
) -> None:
    """Who sees three of nine moves gets the pages and links that somebody gets where there are three."""
    hidden, mine = create(root), create(root, readers=a_list("one"))
    path = f"/groups/group-{mine}"
    assert root.post(f"{path}/positions", json=committing(hidden, mine)).status_code == 200
    for number in range(9):
        moved = {"event_type": mine if number % 4 == 0 else hidden, "partition": 0, "offset": number % 2}
        assert root.patch(f"{path}/positions", json={"items": [moved], "reason": f"{number}"}).status_code == 200

    def list_pages(http: httpx2.Client) -> list[tuple[list[str], dict[str, Any]]]:
        pages, following = [], f"{path}/history?limit=2"
        while following:
            body = http.get(following).json()
            pages.append(([each["reason"] for each in body["items"]], body["_links"]))
            following = body["_links"].get("next", {}).get("href")
        return pages

    with secured.http("one") as one:
        seen = one.get(f"{path}/history").json()["items"]
        link = {"next": {"href": f"{path}/history?after={seen[1]['id']}&limit=2"}}
        assert list_pages(one) == [(["8", "4"], link), (["0"], {})]
    assert [reasons for reasons, _ in list_pages(root)] == [["8", "7"], ["6", "5"], ["4", "3"], ["2", "1"], ["0"]]


def test_reset_of_a_subscription_tells_nothing_of_other_event_types(secured: Secured, root: httpx2.Client) -> None:
    hidden, mine = create(root), create(root, readers=a_list("one"))
    with secured.http("one") as one:
        made = one.post("/subscriptions", json={"owning_application": mine, "event_types": [mine]}).json()
        items = [{"event_type": hidden, "partition": "0", "offset": "000000000000000099"}]
        for given in ({"items": items, "dry_run": True}, {"items": items}):
            answer = one.patch(f"/subscriptions/{made['id']}/cursors", json=given)
            assert problem_of(answer, 403, "access-denied")["resource"] == f"event-type:{hidden}"


def test_consumer_group_without_an_owner_is_adopted_by_its_first_user(secured: Secured, root: httpx2.Client) -> None:
    name = create(root, readers=a_list("one", "two"))
    group = f"old-{name}"
    with secured.direct.store.write() as tx:
        tx.groups.lock(group, kind="processor", at=1)
    with secured.http("one") as one, secured.http("two", 1) as two:
        assert two.post(f"/groups/{group}/positions", json=committing(name)).status_code == 200
        problem_of(one.post(f"/groups/{group}/positions", json=committing(name)), 403, "not-owner")


def test_consumer_group_without_an_owner_is_moved_and_deleted_by_administrators_alone(
    secured: Secured, root: httpx2.Client
) -> None:
    name = create(root, readers=a_list("one"), writers=a_list("writer", "root"), admins=a_list("boss"))
    group = f"/groups/old-{name}"
    with secured.direct.store.write() as tx:
        tx.groups.lock(f"old-{name}", kind="processor", at=1)
        tx.groups.put(f"old-{name}", [Position(name, "", 0, tx.registry.get(name).epoch, 1)], 1)
    reset = {"items": [{"event_type": name, "to": "earliest"}]}
    with secured.http("one") as one, secured.http("writer") as writer, secured.http("boss") as boss:
        problem_of(one.patch(f"{group}/positions", json=reset), 403, "not-owner")
        for each in (one, writer):
            problem_of(each.delete(group), 403, "not-owner")
        assert boss.patch(f"{group}/positions", json=reset).status_code == 200
        assert boss.delete(group).status_code == 204


def test_list_of_parked_keys_shows_no_key_to_those_who_may_not_read_it(secured: Secured, root: httpx2.Client) -> None:
    name = create(root, readers=a_list("consumer"))
    given = {"owning_application": name, "event_types": [name]}
    with secured.http("consumer") as consumer, secured.http("stranger", 1) as stranger:
        made = consumer.post("/subscriptions", json=given).json()["id"]
        with secured.direct.store.write() as tx:
            tx.subscriptions.park(made, (name, 0), "secret", 0, attempts=2, at=1)
        path = f"/subscriptions/{made}/parked"
        assert [each["key"] for each in consumer.get(path).json()["items"]] == ["secret"]
        assert [each["key"] for each in stranger.get(path).json()["items"]] == [None]


SPAN = {"index": 0, "next": 1, "events": 1, "attempts": 2, "tag": "ValueError", "detail": "of jane", "since": "1:0"}


def test_parked_streams_are_handled_by_the_owner_of_the_group_and_shown_to_those_who_see_its_event_types(
    secured: Secured, root: httpx2.Client
) -> None:
    name, hidden = create(root, readers=a_list("one"), admins=a_list("boss")), create(root, readers=a_list("one"))
    group = f"/groups/group-{name}"
    streams = [{"event_type": each, "partition": 0, "stream": f"{each}-jane", **SPAN} for each in (name, hidden)]
    with secured.http("one") as one, secured.http("boss", 1) as boss, secured.http("stranger", 1) as stranger:
        assert one.post(f"{group}/positions", json=committing(name, hidden) | {"parked": streams}).status_code == 200
        own = create(stranger, readers=a_list("stranger"), admins=a_list("stranger"), writers=a_list("stranger"))
        mine = {"event_type": own, "partition": 0, "stream": "spoofed", **SPAN}
        for given in ({"parked": [mine]}, {"unparked": [{"event_type": own, "partition": 0, "stream": "x"}]}):
            problem_of(stranger.post(f"{group}/positions", json={"items": [], **given}), 403, "not-owner")
        place = {each: streams[0][each] for each in ("event_type", "partition", "stream")}
        theirs = {"items": [], "kind": "processor", "unparked": [place]}
        problem_of(stranger.post(f"/groups/own-{own}/positions", json=theirs), 403, "access-denied")

        found = one.get(f"{group}/parked").json()["items"]
        assert {each["event_type"]: (each["stream"], each["detail"]) for each in found} == {
            each: (f"{each}-jane", "of jane") for each in (name, hidden)
        }
        [seen] = boss.get(f"{group}/parked").json()["items"]
        assert (seen["event_type"], seen["stream"], seen["detail"]) == (name, None, None)
        problem_of(stranger.get(f"{group}/parked"), 403, "access-denied")
        for path in (f"{group}/parked/retry", *(f"{group}/parked/{found[0]['id']}/{act}" for act in ("retry", "skip"))):
            problem_of(stranger.post(path, json={"reason": "no"}), 403, "access-denied")
            problem_of(boss.post(path, json={"reason": "no"}), 403, "not-owner")
        assert one.get(f"{group}/parked?requested=true").json()["items"] == []
        assert one.post(f"{group}/parked/{found[0]['id']}/skip", json={"reason": "no"}).status_code == 204


def test_members_of_a_group_are_those_of_its_owner(secured: Secured, root: httpx2.Client) -> None:
    name, hidden = create(root, readers=a_list("one", "two"), admins=a_list("boss")), create(root)
    group = f"/groups/group-{name}"

    def renewal(of: str) -> dict[str, Any]:
        return {"tranches": [f"{of}/0"], "lease_seconds": 60}

    with secured.http("one") as one, secured.http("two", 1) as two, secured.http("boss") as boss:
        problem_of(one.post(f"{group}/members/a", json=renewal(hidden)), 403, "access-denied")
        assert one.post(f"{group}/members/a", json=renewal(name)).json()["tranches"] == [f"{name}/0"]
        for member in ("a", "b"):
            problem_of(two.post(f"{group}/members/{member}", json=renewal(name)), 403, "not-owner")
            release = {"tranches": [f"{name}/0"]}
            problem_of(two.post(f"{group}/members/{member}/release", json=release), 403, "not-owner")
            problem_of(two.delete(f"{group}/members/{member}"), 403, "not-owner")
        assert one.post(f"{group}/members/a", json=renewal(name)).json()["tranches"] == [f"{name}/0"]
        assert one.post(f"{group}/positions", json=committing(name)).status_code == 200
        assert [each["tranches"] for each in boss.get(group).json()["members"]] == [[f"{name}/0"]]
        assert boss.delete(f"{group}/members/a").status_code == 204
        assert "members" not in one.get(group).json()


def test_cursor_sets_of_two_callers_are_apart(secured: Secured, root: httpx2.Client) -> None:
    """As the specification of ZeroEventHub has it: a cursor set is that of a caller and a name."""
    name = create(root, readers=a_list("one", "two"), writers=a_list("root"))
    for number in range(2, 5):
        root.post(f"/feeds/{name}", content=b'{"data":{"id":%d}}' % number)
    with secured.http("one") as one, secured.http("two", 1) as two:

        def read(http: httpx2.Client, **arguments: Any) -> list[dict[str, Any]]:
            answer = http.get(f"/feeds/{name}", params={"n": 1, "cursorset": "nightly", "pagesizehint": 2} | arguments)
            assert answer.status_code == 200, answer.text
            return [json.loads(line) for line in answer.text.splitlines()]

        half = [line["cursor"] for line in read(one, cursor0="_first") if "cursor" in line][-1]
        read(one, cursor0=half)  # Whoever reads from a cursor has processed all before it.
        read(two, cursor0="_first")

        assert [line["data"]["id"] for line in read(one, resume=0) if "data" in line] == [3, 4]
        assert [line["data"]["id"] for line in read(two, resume=0) if "data" in line] == [1, 2]
        for own in ("nightly of service:two", f"nightly of {blake2b(b'service:two', digest_size=16).hexdigest()}"):
            given = {"n": 1, "cursorset": own, "cursor0": half}
            problem_of(one.get(f"/feeds/{name}", params=given), 403, "not-owner")
            problem_of(one.post(f"/groups/{own}/positions", json=committing(name)), 403, "not-owner")


def test_producer_group_belongs_to_its_first_user(secured: Secured, root: httpx2.Client) -> None:
    name = create(root, writers=a_list("one", "two", "root"), admins=a_list("boss"))
    at = f"/event-types/{name}/partitions/0"
    headers = {"Producer-Group": "sink", "Producer-Epoch": "0", "Producer-Sequence": "0"}
    with secured.http("one") as one, secured.http("two", 1) as two, secured.http("boss") as boss:
        assert one.put(f"{at}/producers/sink", json={"epoch": 0}).status_code == 200
        assert one.post(f"{at}/events", json=[{"id": 2}], headers=headers).status_code == 200
        again = headers | {"Producer-Sequence": "1"}
        problem_of(two.post(f"{at}/events", json=[{"id": 3}], headers=again), 403, "not-owner")
        problem_of(two.put(f"{at}/producers/sink", json={"epoch": 1}), 403, "not-owner")
        opened = {"producer_group": "sink", "batch": 0, "query": "q"}
        problem_of(two.post(f"/event-types/{name}/uploads", json=opened), 403, "not-owner")
        batch = f"/event-types/{name}/producers/sink/batches/0"
        problem_of(two.put(batch, json={"query": "q", "uploads": []}), 403, "not-owner")
        assert one.post(f"{at}/events", json=[{"id": 3}], headers=again).status_code == 200

        for path in (f"{at}/producers/sink", f"/event-types/{name}/producers/sink/batches"):
            assert problem_of(two.delete(path), 403, "access-denied")["operation"] == "ADMIN"
            assert one.delete(path).status_code in (200, 204), path
            assert boss.delete(path).status_code in (200, 204), path


def test_producer_group_without_an_owner_is_deleted_by_administrators_alone(
    secured: Secured, root: httpx2.Client
) -> None:
    name = create(root, writers=a_list("one"), admins=a_list("boss"))
    path = f"/event-types/{name}/producers/old/batches"
    with secured.http("one") as one, secured.http("boss") as boss:
        problem_of(one.delete(path), 403, "access-denied")
        problem_of(one.delete(path), 403, "access-denied")  # To be refused has made it nobody's.
        assert boss.delete(path).status_code == 200
        problem_of(one.delete("/event-types/no.such/producers/old/batches"), 404, "event-type-not-found")


def test_producer_group_that_the_hub_has_named_belongs_to_the_caller_who_asked_for_it(
    secured: Secured, root: httpx2.Client
) -> None:
    name = create(root, writers=a_list("one", "two"))
    claim = {"claim_id": uuid.uuid4().hex}
    with secured.http("one") as one, secured.http("two", 1) as two:
        assert one.post(f"/event-types/{name}/partitions/0/producers", json=claim).status_code == 201
        problem_of(two.post(f"/event-types/{name}/partitions/0/producers", json=claim), 403, "not-owner")


def test_administrator_who_was_just_named_deletes_groups_of_others_at_another_hub(
    secured: Secured, root: httpx2.Client
) -> None:
    name = create(root, readers=a_list("one", "two"))
    with secured.http("one") as one, secured.http("two", 1) as two:
        assert one.post(f"/groups/group-{name}/positions", json=committing(name)).status_code == 200
        problem_of(two.delete(f"/groups/group-{name}"), 403, "not-owner")
        definition = root.get(f"/event-types/{name}").json()
        definition["authorization"]["admins"] = a_list("two")
        assert root.put(f"/event-types/{name}", json=definition).status_code == 200
        assert two.delete(f"/groups/group-{name}").status_code == 204


def test_upload_belongs_to_the_owner_of_its_producer_group(secured: Secured, root: httpx2.Client) -> None:
    name = create(root, writers=a_list("one", "two", "boss"), admins=a_list("boss"))
    lines = {"Content-Type": "application/x-ndjson"}
    with secured.http("one") as one, secured.http("two", 1) as two, secured.http("boss") as boss:
        opened = one.post(f"/event-types/{name}/uploads", json={"producer_group": "sink", "batch": 0, "query": "q"})
        upload = f"/event-types/{name}/uploads/{opened.json()['upload']}"
        problem_of(two.put(f"{upload}/chunks/0", content=b'{"data":{}}', headers=lines), 403, "not-owner")
        problem_of(two.delete(upload), 403, "not-owner")
        assert one.put(f"{upload}/chunks/0", content=b'{"data":{}}', headers=lines).status_code == 200
        assert boss.delete(upload).status_code == 204
        problem_of(one.delete(upload), 404, "upload-not-found")


# Those who guess are slowed down.


def test_addresses_with_many_invalid_credentials_wait_and_then_are_refused() -> None:
    now, slept = 1000.0, list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    limiter = FailureLimiter(lambda: now, sleep)
    waiting = round(WAIT_MAX / FAILURE_INTERVAL)
    for _ in range(FREE_FAILURES + waiting):
        asyncio.run(limiter.wait("10.0.0.1"))
    for _ in range(3):
        with pytest.raises(
            TooManyRequests, check=lambda error: error.code == "too-many-failures" and (error.retry_after or 0) >= 1
        ):
            asyncio.run(limiter.wait("10.0.0.1"))
    asyncio.run(limiter.wait("10.0.0.2"))

    assert slept == [FAILURE_INTERVAL * n for n in range(1, waiting + 1)]
    now += FAILURE_INTERVAL * (FREE_FAILURES + waiting)
    slept.clear()
    asyncio.run(limiter.wait("10.0.0.1"))
    assert not slept


def test_valid_credential_is_not_slowed_down_by_failures_of_its_address(secured: Secured, root: httpx2.Client) -> None:
    with httpx2.Client(base_url=secured.hubs[0].url, timeout=300) as guessing:
        for number in range(FREE_FAILURES):
            headers = {"Authorization": f"Bearer pst_{number:043}"}
            assert guessing.get("/event-types", headers=headers).status_code == 401

    assert root.get("/settings/admins").status_code == 200


class KnownTokenMethod:
    """Refuses each request for a token that was the hub's."""

    name = "known"

    def start(self, _: Hub) -> None:
        """Do nothing."""

    def identify(self, _: Scope) -> None:
        raise Unauthenticated(reason="token revoked", token="3f9a01b2c4d5")

    def close(self) -> None:
        """Do nothing."""


def test_revoked_token_is_refused_without_delay_however_often_it_comes() -> None:
    authentication = Authentication([KnownTokenMethod()])

    async def send_many() -> list[object]:
        """All at once: guesses would wait, and more than twenty of them would be refused by 429."""
        scopes = [{"type": "http", "client": ("10.0.0.1", 1), "headers": []} for _ in range(100)]
        refusals: list[Any] = [authentication.authenticate(each) for each in scopes]
        return await asyncio.gather(*refusals, return_exceptions=True)

    assert {type(each) for each in asyncio.run(send_many())} == {Unauthenticated}
