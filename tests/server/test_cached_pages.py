"""Pages that end before the end of their feed may be kept by caches, and are confirmed without being read."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx2
import pytest
from starlette.testclient import TestClient

from penstock.core.access import Caller
from penstock.hub.hub import Hub
from penstock.hub.log import read
from penstock.server import HubApp
from penstock.server.authentication.tokens import TokenMethod
from penstock.storage import open_store
from penstock.testing.factories import an_event_type
from tests.served import ARROW, problem_of

NAME = "order.placed"
EVENTS = 50
EVERYBODY = [{"data_type": "*", "value": "*"}]
KEPT = "public, max-age=3600, must-revalidate, immutable"


class Here(NamedTuple):
    """A hub with one event type of two partitions, and a client of it."""

    hub: Hub
    http: httpx2.Client

    def get(self, path: str, **headers: str) -> httpx2.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.get(f"/feeds/{NAME}{path}", headers=named)

    def publish(self, count: int = EVENTS) -> None:
        lines = [{"data": {"n": n}, "key": f"k{n}", "partition": n % 2} for n in range(count * 2)]
        answer = self.http.post(f"/feeds/{NAME}", content="\n".join(map(json.dumps, lines)))
        assert answer.status_code == 200, answer.text

    def cursor(self, partition: int = 0, size: int = 7) -> str:
        """Return the cursor after the first events of a partition."""
        answer = self.get(f"?n=2&cursor{partition}=_first&pagesizehint={size}")
        cursor: str = json.loads(answer.text.splitlines()[-1])["cursor"]
        return cursor

    def partition_ids(self) -> tuple[int, ...]:
        return self.hub.registry.load(NAME).partition_ids

    def remove(self, *offsets: int) -> None:
        """Remove events of the first partition one by one."""
        with self.hub.store.write() as tx:
            tx.log.find_heads(self.partition_ids()[:1], lock=True)
            assert tx.removal.remove(self.partition_ids()[0], offsets) == len(offsets)

    def raise_floor(self, floor: int) -> None:
        """Remove the events of the first partition that are before *floor*."""
        with self.hub.store.write() as tx:
            assert tx.removal.raise_floor(self.partition_ids()[0], floor)

    def paths(self) -> dict[str, str]:
        """Return the addresses of full pages, by what they show."""
        return {
            "v1": f"?n=2&cursor0={self.cursor()}&pagesizehint=10",
            "v1, both": f"?n=2&cursor0={self.cursor()}&cursor1={self.cursor(1)}&pagesizehint=10",
            "v1, merged": f"?n=1&cursor0={self.merged()}&pagesizehint=9",
            "v1, headers": f"?n=2&cursor0={self.cursor()}&pagesizehint=10&headers=_all",
            "v1, kinds": f"?n=2&cursor0={self.cursor()}&pagesizehint=10&event-types={NAME}",
            "v1, slice": f"?n=4&cursor0={self.slice()}&pagesizehint=3",
            "v1, until": f"?n=2&cursor0={self.cursor()}&until0={self.cursor(size=30)}",
            "v2": f"/events?token=1-2&partition=0&cursor={self.cursor()}&pagesizehint=10",
            "v2, until": f"/events?token=1-2&partition=0&cursor={self.cursor()}&until={self.cursor(size=EVENTS)}",
        }

    def merged(self) -> str:
        cursor: str = json.loads(self.get("?n=1&cursor0=_first&pagesizehint=7").text.splitlines()[-1])["cursor"]
        return cursor

    def slice(self) -> str:
        cursor: str = json.loads(self.get("?n=4&cursor0=_first&pagesizehint=3").text.splitlines()[-1])["cursor"]
        return cursor


@contextmanager
def serving(url: str, **options: Any) -> Iterator[Here]:
    hub = Hub(open_store(url))
    hub.store.migrate()
    with TestClient(HubApp(lambda: hub, **options)) as http:
        yield Here(hub, http)


def create(hub: Hub, **definition: Any) -> None:
    traits = {"partition_count": 2, "partition_strategy": "user_defined"} | definition
    hub.registry.create(an_event_type(NAME, **traits))


@pytest.fixture
def here(migrated_url: str) -> Iterator[Here]:
    with serving(migrated_url) as here:
        create(here.hub)
        here.publish()
        yield here


def tag_of(answer: httpx2.Response) -> str:
    assert answer.status_code == 200, answer.text
    tag: str = answer.headers["etag"]
    return tag


def assert_not_kept(answer: httpx2.Response) -> None:
    assert answer.headers["cache-control"] == "no-store"
    assert "etag" not in answer.headers


FORMS: tuple[dict[str, str], ...] = (
    {},
    {"accept": ARROW},
    {"accept_encoding": "gzip"},
    {"accept_encoding": "zstd"},
    {"accept_encoding": ""},
)


def test_full_page_is_the_same_whatever_is_published_and_has_one_tag(here: Here) -> None:
    before = {(name, n): here.get(path, **form) for name, path in here.paths().items() for n, form in enumerate(FORMS)}
    here.publish(70)
    after = {(name, n): here.get(path, **form) for name, path in here.paths().items() for n, form in enumerate(FORMS)}

    for which, answer in before.items():
        assert (answer.headers["cache-control"], answer.headers["vary"]) == (KEPT, "Accept, Accept-Encoding"), which
        assert after[which].content == answer.content, which
        assert tag_of(after[which]) == tag_of(answer)
    for name in here.paths():
        assert len({tag_of(before[name, n]) for n in range(len(FORMS))}) == 4, (
            name
        )  # A client takes zstd unless it says something else.


def test_page_that_the_client_has_is_confirmed_without_reading_an_event(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "SCAN_ROWS_MAX", 1_000)
    here.publish(1_001)  # Filtered pages are constant beforehand where they cannot come to the end.
    paths = here.paths()
    tags = {name: tag_of(here.get(path)) for name, path in paths.items()}
    for name in ("read_next_lines", "read_next_columns"):
        monkeypatch.setattr(read.Reader, name, lambda *_: pytest.fail("it reads"))

    for name, path in paths.items():
        for given in (tags[name], f'"other", W/{tags[name]}', "*"):
            answer = here.get(path, if_none_match=given)
            assert (answer.status_code, answer.content) == (304, b""), name
            assert (tag_of_known(answer), answer.headers["cache-control"]) == (tags[name], KEPT)
            assert answer.headers["vary"] == "Accept, Accept-Encoding"
            head = here.http.head(f"/feeds/{NAME}{path}", headers={"If-None-Match": given})
            assert (head.status_code, head.headers["etag"]) == (304, tags[name])


def tag_of_known(answer: httpx2.Response) -> str:
    tag: str = answer.headers["etag"]
    return tag


def test_head_of_a_page_has_the_headers_of_its_get(here: Here) -> None:
    for path in here.paths().values():
        if "event-types" in path or "n=4" in path:
            continue  # Whether they may be kept shows when they have been read.
        got, head = here.get(path), here.http.head(f"/feeds/{NAME}{path}")
        for name in ("etag", "cache-control", "vary"):
            assert head.headers[name] == got.headers[name], path
    assert_not_kept(here.http.head(f"/feeds/{NAME}?n=2&cursor0={here.cursor()}"))


def remove_one(here: Here) -> None:
    here.remove(12)


def remove_behind(here: Here) -> None:
    here.remove(40)


def change(here: Here) -> None:
    definition = here.hub.registry.load(NAME).event_type.definition
    here.hub.registry.replace(NAME, definition | {"owning_application": "another"})


@pytest.mark.parametrize("act", [remove_one, remove_behind, change])
def test_tag_ends_with_a_removal_or_a_change_of_the_event_type(here: Here, act: Callable[[Here], None]) -> None:
    paths = here.paths()
    before = {name: here.get(path) for name, path in paths.items()}
    act(here)

    for name, path in paths.items():
        answer = here.get(path, if_none_match=tag_of(before[name]))
        assert answer.status_code == 200, name
        assert tag_of(answer) != tag_of(before[name])
        assert ('"n":24}' in answer.text) == ('"n":24}' in before[name].text and act is not remove_one)


def test_tag_ends_when_the_event_type_is_dropped_and_created_again(here: Here) -> None:
    first = "?n=2&cursor0=_first&pagesizehint=10"
    tag, path = tag_of(here.get(first)), here.paths()["v1"]
    old = tag_of(here.get(path))
    here.hub.registry.delete(NAME)
    gone = here.get(path, if_none_match=old)
    create(here.hub)
    here.publish()

    problem_of(gone, 404, "event-type-not-found")
    problem_of(here.get(path, if_none_match=old), 410, "cursor-expired")
    answer = here.get(first, if_none_match=tag)
    assert answer.status_code == 200
    assert tag_of(answer) != tag


def test_errors_are_told_also_to_those_who_have_the_page(here: Here) -> None:
    paths = here.paths()
    tags = {name: tag_of(here.get(paths[name])) for name in ("v1", "v2")}
    here.raise_floor(20)

    for name, tag in tags.items():
        problem_of(here.get(paths[name], if_none_match=tag), 410, "cursor-expired")
    stale = here.get(paths["v2"].replace("1-2", "1-3"), if_none_match=tags["v2"])
    for answer in (stale, here.get("?n=2&cursor0=garbage", if_none_match="*")):
        assert answer.status_code >= 400
        assert_not_kept(answer)


def test_page_that_depends_on_more_than_its_address_is_not_kept(here: Here) -> None:
    cursor = here.cursor()
    for path in (
        f"?n=2&cursor0={cursor}",  # It comes to the end.
        f"?n=2&cursor0={cursor}&pagesizehint={EVENTS - 7}",
        f"?n=2&cursor0={cursor}&cursor1={here.cursor(1, EVENTS - 1)}&pagesizehint=10",
        "?n=2&cursor0=_last",
        f"?n=2&cursor0={cursor}&pagesizehint=0",
        f"?n=2&cursor0={cursor}&until0=_last",
        f"?n=2&cursor0={cursor}&until0=_first",
        f"?n=2&cursor0={cursor}&pagesizehint=10&wait=1",
        f"?n=2&cursor0={cursor}&pagesizehint=10&cursorset=mine",
        "?n=2&resume=0&cursorset=mine&pagesizehint=10",
        f"?n=2&cursor0={cursor}&pagesizehint=100&event-types=other.kind",
        f"/events?token=1-2&partition=0&cursor={cursor}",
        "",
    ):
        for answer in (here.get(path), here.get(path, accept=ARROW) if path else here.get(path)):
            assert answer.status_code == 200, path
            assert_not_kept(answer)
        assert here.get(path, if_none_match="*").status_code == 200


def test_page_from_the_first_event_is_kept_for_seconds_and_ends_where_the_others_end(here: Here) -> None:
    short = "public, max-age=10, must-revalidate"
    first = here.get("?n=2&cursor0=_first&pagesizehint=10")
    here.raise_floor(13)
    answers = [
        here.get("?n=2&cursor0=_first&pagesizehint=10", if_none_match=tag_of(first)),
        here.get("/events?token=1-2&partition=0&cursor=_first&pagesizehint=10"),
    ]

    for answer in (first, *answers):
        assert answer.headers["cache-control"] == short
    for answer in answers:
        lines = [json.loads(line) for line in answer.text.splitlines()]
        assert [line["data"]["n"] // 2 for line in lines[:-1]] == [*range(13, 20)]
        assert lines[-1]["cursor"] == "1-" + here.cursor().split("-", 1)[1].rsplit("-", 1)[0] + "-20"


def test_hub_with_another_time_says_so_and_one_without_has_nothing_kept(sqlite_url: str) -> None:
    with serving(sqlite_url) as here:
        create(here.hub)
        here.publish()
        path = here.paths()["v1"]
        tag = tag_of(here.get(path))
    for seconds, expected in ((90.0, "public, max-age=90, must-revalidate, immutable"), (0.0, "no-store")):
        with serving(sqlite_url, cache_ttl_seconds=seconds) as here:
            answer = here.get(path)
            assert answer.headers["cache-control"] == expected
            assert ("etag" in answer.headers) == (seconds > 0)
            assert here.get(path, if_none_match=tag).status_code == (304 if seconds else 200)


def test_only_pages_of_everybody_are_public_and_nobody_else_is_told_that_they_are_unchanged(migrated_url: str) -> None:
    with serving(migrated_url, authentication=[TokenMethod()], administrators=["service:root"]) as here:
        names = ("root", "reader", "stranger")
        tokens = {name: here.hub.admin.tokens.create(Caller("service", name)).secret for name in names}
        lists = {each: [{"data_type": "service", "value": "root"}] for each in ("admins", "writers")}
        readers = [{"data_type": "service", "value": "reader"}]
        create(here.hub, authorization=lists | {"readers": readers})
        here.http.headers["Authorization"] = f"Bearer {tokens['root']}"
        here.publish()

        def get(name: str | None, path: str, **headers: str) -> httpx2.Response:
            here.http.headers.pop("Authorization", None)
            if name:
                headers |= {"authorization": f"Bearer {tokens[name]}"}
            return here.get(path, **headers)

        first = "?n=2&cursor0=_first&pagesizehint=10"
        cursor = json.loads(get("reader", first).text.splitlines()[-1])["cursor"]
        path = f"?n=2&cursor0={cursor}&pagesizehint=10"
        private = get("reader", path)
        tag = tag_of(private)
        refused = [get(name, path, if_none_match=given) for name in ("stranger", None) for given in (tag, "*")]
        known = get("reader", path, if_none_match=tag)
        definition = here.hub.registry.load(NAME).event_type.definition
        here.hub.registry.replace(NAME, definition | {"authorization": lists | {"readers": EVERYBODY}})
        public = get("stranger", path)
        nobody = get(None, path, if_none_match=tag_of(public))
        here.hub.registry.replace(NAME, definition | {"authorization": lists | {"readers": lists["admins"]}})
        here.hub.admin.permissions.refresh()
        revoked = get("reader", path, if_none_match=tag)

    assert private.headers["cache-control"] == "private, max-age=3600, must-revalidate, immutable"
    assert private.headers["vary"] == "Accept, Accept-Encoding, Authorization"
    assert (known.status_code, known.headers["cache-control"]) == (304, private.headers["cache-control"])
    assert (public.headers["cache-control"], public.headers["vary"]) == (KEPT, "Accept, Accept-Encoding")
    assert [each.status_code for each in (*refused, nobody, revoked)] == [403, 403, 401, 401, 401, 403]
    for each in (*refused, nobody, revoked):
        assert_not_kept(each)
