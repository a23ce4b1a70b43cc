"""Hubs and consumers that are killed and come back, over one database and one subscription."""

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from penstock.hub.subscriptions.sessions import LEASE_SECONDS
from penstock.testing.live_hub import LiveHub

NAME: Final = "watched"
PARTITIONS: Final = 8
COMMIT_SECONDS: Final = 2
PAUSE_SECONDS_MAX: Final = 1.4 * LEASE_SECONDS


class Consumers:
    """Processes that consume; each can be killed, and another one takes its place."""

    def __init__(self, subscription: str, folder: Path, chance: random.Random, hubs: Sequence[str]) -> None:
        self._subscription = subscription
        self._folder = folder
        self._chance = chance
        self._hubs = hubs
        self._running: list[subprocess.Popen[bytes]] = []
        self._begun = 0

    @property
    def logs(self) -> Sequence[Path]:
        """The logs of all consumers."""
        return sorted(self._folder.glob("consumer-*.log"))

    def begin(self) -> None:
        """Start one more."""
        log = self._folder / f"consumer-{self._begun:03}.log"
        self._begun += 1
        seed = str(self._chance.randrange(1 << 30))
        program = [sys.executable, "-m", "tests.faults.consumer_process"]
        self._running.append(
            subprocess.Popen([*program, self._subscription, str(log), seed, str(COMMIT_SECONDS), *self._hubs])
        )

    def kill_one(self) -> None:
        """Kill one, whatever it is doing."""
        victim = self._running.pop(self._chance.randrange(len(self._running)))
        victim.kill()
        victim.wait()

    def kill_all(self) -> None:
        """End."""
        while self._running:
            self.kill_one()


class Publishing:
    """Events with rising numbers, published to all partitions until it is over, on whichever hub answers."""

    def __init__(self, hubs: Sequence[str], rate: int) -> None:
        self._hubs = hubs
        self._rate = rate
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.published = 0

    def begin(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """End, with the last batch stored."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        number, chance = 0, random.Random(0)
        while not self._over.is_set():
            events = [{"n": number + at} for at in range(self._rate // 10)]
            lines = "".join(
                json.dumps({"data": event, "partition": (number + at) % PARTITIONS}) + "\n"
                for at, event in enumerate(events)
            )
            try:
                ask(chance.choice(self._hubs), "POST", f"/feeds/{NAME}", lines.encode())
                number += len(events)
                self.published = number
            except (OSError, HTTPException, AssertionError):
                pass  # A repeat is another event, at another offset: that is what is counted here.
            self._over.wait(0.1)


def ask(hub: str, method: str, path: str, body: Any = None) -> Any:
    """Ask a hub, and return what it says."""
    where = urlsplit(hub)
    connection = HTTPConnection(where.hostname or "", where.port, timeout=10)
    try:
        headers = {"Content-Type": "application/x-ndjson" if isinstance(body, bytes) else "application/json"}
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request(method, path, sent, headers)
        response = connection.getresponse()
        said = response.read()
    finally:
        connection.close()
    assert response.status < 300, (response.status, said[:500])
    return json.loads(said) if said else None


def subscribe(hub: str) -> str:
    """Create the event type and a subscription to it; return the id of that."""
    statistic = {"messages_per_minute": 1, "message_size": 1, "read_parallelism": 8, "write_parallelism": PARTITIONS}
    schema = {"type": "json_schema", "schema": "{}"}
    definition = {"name": NAME, "owning_application": "soak", "category": "undefined", "schema": schema}
    more = {"partition_strategy": "user_defined", "default_statistic": statistic}
    ask(hub, "POST", "/event-types", definition | more)
    given = {"owning_application": "soak", "event_types": [NAME], "read_from": "begin"}
    return str(ask(hub, "POST", "/subscriptions", given)["id"])


def heads_of(hub: str) -> Mapping[str, int]:
    """Return where each partition ends."""
    found = ask(hub, "GET", f"/event-types/{NAME}/partitions")
    ends = {each["partition"]: each["newest_available_offset"].rsplit("-", 1)[1] for each in found}
    return {partition: int(end) + 1 if end.isdigit() and "--1" not in end else 0 for partition, end in ends.items()}


def unconsumed_events(hub: str, subscription: str) -> int:
    """Return how many events are not committed."""
    items = ask(hub, "GET", f"/subscriptions/{subscription}/stats")["items"]
    return sum(each.get("unconsumed_events", 1) for item in items for each in item["partitions"])


@contextmanager
def hubs_on(url: str, count: int, folder: Path) -> Iterator[Sequence[LiveHub]]:
    """Run so many hubs on one database."""
    hubs = [LiveHub(url, log=folder / f"hub-{number}.log") for number in range(count)]
    try:
        for hub in hubs:
            hub.start()
        yield hubs
    finally:
        for hub in hubs:
            hub.kill()


class Disturbed(NamedTuple):
    """The kills and pauses of hubs and consumers."""

    counts: Mapping[str, int]
    resumed: Sequence[tuple[str, float]]
    """Hubs that stood still for a while, and when they went on."""


def disturb(
    hubs: Sequence[LiveHub], consumers: Consumers, chance: random.Random, seconds: float, *, pauses: bool = False
) -> Disturbed:
    """Kill hubs and consumers at random for so long, each at least once; with *pauses*, pause hubs, too."""
    counts = {"hubs killed": 0, "consumers killed": 0} | ({"hubs paused": 0} if pauses else {})
    resumed = []
    each_once = list(counts)
    until = time.monotonic() + seconds
    while each_once or time.monotonic() < until:
        time.sleep(chance.uniform(0.5, 2.5))
        what = each_once.pop() if each_once else chance.choice(list(counts))
        counts[what] += 1
        if what == "consumers killed":
            consumers.kill_one()
            consumers.begin()
            continue
        hub = chance.choice(hubs)
        if what == "hubs paused":
            hub.pause()
            time.sleep(chance.uniform(0.5, PAUSE_SECONDS_MAX) if resumed else PAUSE_SECONDS_MAX)
            resumed.append((hub.url, time.monotonic()))
            hub.resume()
        else:
            hub.kill()
            time.sleep(chance.uniform(0, 1))
            hub.start()
    return Disturbed(counts, resumed)
