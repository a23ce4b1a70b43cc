"""Those who publish idempotently, as a hub hears of them: batches with numbers, claims, and what is answered."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx2
from starlette.testclient import TestClient

from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.storage import open_store
from tests.served import Served, problem_of

Anything = TypeVar("Anything")
_STANDARD = {"type", "title", "status", "detail", "hint"}


class Producer:
    """A producer group in one partition of a feed."""

    def __init__(self, feed: Served, group: str = "mine", partition: int = 0) -> None:
        self.feed = feed
        self.http = feed.http
        self.group = group
        self.partition = partition
        self.all_path = f"/event-types/{feed.name}/partitions/{partition}/producers"
        self.path = f"{self.all_path}/{group}"
        self.events_path = f"/event-types/{feed.name}/partitions/{partition}/events"

    def other(self, group: str | None = None, partition: int | None = None) -> "Producer":
        """Return another one, of the same feed."""
        return Producer(self.feed, group or self.group, self.partition if partition is None else partition)

    def headers(self, sequence: int, *, epoch: int = 0, **more: Any) -> dict[str, str]:
        """Return the headers of a batch; *more* are Overlap and Deadline_Ms."""
        named = {"Group": self.group, "Epoch": epoch, "Sequence": sequence} | more
        return {f"Producer-{name.replace('_', '-')}": str(value) for name, value in named.items()}

    # Publishing

    def send(self, sequence: int, ids: Sequence[int], *, epoch: int = 0, **more: Any) -> httpx2.Response:
        """Publish events with these *ids*, the first of which has the number *sequence*."""
        events = [{"id": number} for number in ids]
        return self.http.post(self.events_path, json=events, headers=self.headers(sequence, epoch=epoch, **more))

    def stores(self, sequence: int, ids: Sequence[int], **more: Any) -> dict[str, Any]:
        """Publish them, which must succeed; return the result."""
        return result_of(self.send(sequence, ids, **more))

    def appends(self, sequence: int, ids: Sequence[int], **more: Any) -> int:
        """Publish them as something new; return the offset of the first."""
        found = self.stores(sequence, ids, **more)
        assert found["outcome"] == "appended", found
        first: int = found["offsets"]["first"]
        return first

    def refused(self, answer: httpx2.Response, status: int, code: str, **members: Any) -> dict[str, Any]:
        """See that a batch was refused so, with exactly these *members*, and none of it stored unless they say so."""
        told = {"current_epoch": 0, "committed": False, "ranges": []} | members
        return self.told(answer, status, code, **told)

    def told(self, answer: httpx2.Response, status: int, code: str, **members: Any) -> dict[str, Any]:
        """See that *answer* is the problem of that name about this producer, with exactly these *members*."""
        named = {"producer_group": self.group, "partition": self.partition}
        return told(answer, status, code, **named, **members)

    # Claims and what is known

    def claim(self, **body: Any) -> httpx2.Response:
        return self.http.put(self.path, json=body)

    def claims(self, **body: Any) -> dict[str, Any]:
        """Claim, which must be granted; return how far the producer has come."""
        return shown_of(self.claim(**body))

    def shown(self) -> dict[str, Any]:
        return shown_of(self.http.get(self.path))

    def found(self, first: int, **arguments: Any) -> dict[str, Any]:
        """Ask for the batch that begins with that number."""
        answer = self.http.get(f"{self.path}/sequences/{first}", params=arguments)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def log(self) -> list[int]:
        """Return the ids of the events of the partition, whoever has published them."""
        return self.feed.read(pagesizehint=100_000).of(self.partition)


def result_of(answer: httpx2.Response) -> dict[str, Any]:
    """Return the result of a batch that was taken, which the headers of the answer say, too."""
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert answer.headers["producer-epoch"] == str(found["epoch"])
    assert answer.headers["producer-next-sequence"] == str(found["sequence"]["next"])
    return found


def shown_of(answer: httpx2.Response, status: int = 200) -> dict[str, Any]:
    """Return a producer as it is shown, whose tag says where it stands."""
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    number = "" if found["next_sequence"] is None else found["next_sequence"]
    assert answer.headers["etag"] == f'"{found["epoch"]}:{number}"'
    assert answer.headers["cache-control"] == "no-store"
    return found


def but_times(shown: dict[str, Any]) -> dict[str, Any]:
    """Return a producer as it is shown, without what tells when it was heard of."""
    return {name: value for name, value in shown.items() if name not in ("updated_at", "expires_at")}


def result(outcome: str, numbers: tuple[int, int, int], *ranges: tuple[int, int], epoch: int = 0) -> dict[str, Any]:
    """Return the result of a batch: its first and its last number and the next one; then the offsets."""
    lie: dict[str, Any] = (
        {"offsets": offsets(ranges[0])} if len(ranges) == 1 else {"ranges": list(map(offsets, ranges))}
    )
    return {
        "outcome": outcome,
        "epoch": epoch,
        "sequence": dict(zip(("first", "last", "next"), numbers, strict=True)),
    } | lie


def offsets(lie: tuple[int, int]) -> dict[str, int]:
    return {"first": lie[0], "last": lie[1]}


def told(answer: httpx2.Response, status: int, code: str, **members: Any) -> dict[str, Any]:
    """See that *answer* is the problem of that name, with exactly these *members* besides those that all have."""
    problem = problem_of(answer, status, code)
    said = {name: value for name, value in problem.items() if name not in _STANDARD}
    assert said == members, f"it says {said}"
    return problem


def together(asked: Sequence[Callable[[], Anything]]) -> list[Anything]:
    """Ask at the same time, each in a thread of its own; return the answers in the order of what was asked."""
    at_once = threading.Barrier(len(asked))

    def ask(each: Callable[[], Anything]) -> Anything:
        at_once.wait(60)
        return each()

    with ThreadPoolExecutor(len(asked)) as threads:
        return list(threads.map(ask, asked))


@contextmanager
def hub_here(url: str, *, starts: bool = True, **traits: Any) -> Iterator[httpx2.Client]:
    """Serve a hub in this process, and talk to it; *traits* are what `Hub` is made with.

    One that does not start does what it is asked, and nothing by itself.
    """

    def opened() -> Hub:
        store = open_store(url)
        store.migrate()
        hub = Hub(store, **traits)
        if starts:
            hub.start()
        return hub

    with TestClient(HubApp(opened), base_url="http://hub") as http:
        yield http
