"""A consumer of a subscription that runs until it is killed, and logs its batches and its commits.

    python -m tests.faults.consumer_process SUBSCRIPTION LOG SEED COMMIT_TIMEOUT HUB…

Every line of the log is written whole, with the machine's monotonic clock, so that those of many processes can be put
in one order: a batch when it was read, a commit when it was asked for and when the hub had said that it is done.
"""

import json
import queue
import random
import sys
import threading
import time
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

TIMEOUT = 15.0
PAUSE_SECONDS = 0.1


class Consumer:
    """Reads batches, and commits each after a while, on whichever hub answers."""

    def __init__(self, subscription: str, log: Path, seed: int, commit_timeout: int, hubs: list[str]) -> None:
        self._path = f"/subscriptions/{subscription}"
        self._log = log.open("a", buffering=1)
        self._chance = random.Random(seed)
        self._commit_timeout = commit_timeout
        self._hubs = hubs
        self._read: queue.Queue[tuple[str, dict[str, Any]] | None] = queue.Queue()
        self._writing = threading.Lock()

    def run(self) -> None:
        """Consume until killed."""
        threading.Thread(target=self._commit_all, daemon=True).start()
        while True:
            try:
                self._stream(self._chance.choice(self._hubs))
            except (OSError, HTTPException, ValueError) as error:
                self._note("lost", why=repr(error)[:200])
            time.sleep(PAUSE_SECONDS)

    def _stream(self, hub: str) -> None:
        connection = _connect(hub)
        query = f"batch_limit=20&max_uncommitted_events=200&batch_flush_timeout=1&commit_timeout={self._commit_timeout}"
        connection.request("GET", f"{self._path}/events?{query}", headers={"Accept-Encoding": "identity"})
        response = connection.getresponse()
        if response.status != 200:
            self._note("refused", status=response.status, why=response.read().decode()[:300])
            connection.close()
            return
        stream = response.headers["X-Nakadi-StreamId"]
        self._note("opened", stream=stream, hub=hub)
        # Some streams are left by their consumers, at once and without a word.
        until = time.monotonic() + (self._chance.uniform(0.5, 8) if self._chance.random() < 0.5 else 1e9)
        self._take(response, stream, until)
        connection.close()

    def _take(self, response: HTTPResponse, stream: str, until: float) -> None:
        while time.monotonic() < until:
            line = response.readline()
            if not line:
                self._note("ended", stream=stream)
                return
            batch = json.loads(line)
            cursor, events = batch["cursor"], batch.get("events", [])
            last = int(cursor["offset"].rsplit("-", 1)[1]) if not cursor["offset"].endswith("--1") else -1
            if "debug" in batch.get("info", {}):
                self._note("told", stream=stream, debug=batch["info"]["debug"])
            if events:
                self._note(
                    "batch", stream=stream, partition=cursor["partition"], first=last - len(events) + 1, last=last,
                    events=[event["n"] for event in events],
                )  # fmt: skip
                self._read.put((stream, cursor))

    def _commit_all(self) -> None:
        """Commit what was read, mostly soon, sometimes late or not at all; more than one cursor at a time."""
        while True:
            found = [self._read.get()]
            time.sleep(self._chance.choice([0, 0, 0.01, 0.05, 0.2]))
            while not self._read.empty() and len(found) < 20:
                found.append(self._read.get())
            if self._chance.random() < 0.03:
                time.sleep(self._commit_timeout * 1.5)
            by_stream: dict[str, list[dict[str, Any]]] = {}
            for each in found:
                if each is not None:
                    by_stream.setdefault(each[0], []).append(each[1])
            for stream, cursors in by_stream.items():
                self._commit(stream, cursors)

    def _commit(self, stream: str, cursors: list[dict[str, Any]]) -> None:
        offsets = [(each["partition"], int(each["offset"].rsplit("-", 1)[1])) for each in cursors]
        self._note("asked", stream=stream, offsets=offsets)
        body = json.dumps({"items": cursors})
        headers = {"X-Nakadi-StreamId": stream, "Content-Type": "application/json"}
        for _ in range(5):
            try:
                connection = _connect(self._chance.choice(self._hubs))
                connection.request("POST", f"{self._path}/cursors", body, headers)
                response = connection.getresponse()
                said = response.read()
                connection.close()
            except (OSError, HTTPException):
                time.sleep(PAUSE_SECONDS)
                continue
            if response.status in (200, 204):
                self._note("committed", stream=stream, offsets=offsets)
                return
            if response.status == 422:
                self._note("refused_commit", stream=stream, offsets=offsets, why=said.decode()[:300])
                return
            time.sleep(PAUSE_SECONDS)

    def _note(self, what: str, **more: Any) -> None:
        with self._writing:
            self._log.write(json.dumps({"at": time.monotonic(), "what": what} | more) + "\n")


def _connect(hub: str) -> HTTPConnection:
    where = urlsplit(hub)
    return HTTPConnection(where.hostname or "", where.port, timeout=TIMEOUT)


if __name__ == "__main__":
    _, subscription_id, log_path, seed_text, commit_text, *urls = sys.argv
    Consumer(subscription_id, Path(log_path), int(seed_text), int(commit_text), urls).run()
