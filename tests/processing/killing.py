"""Programs that are killed while a feed grows that they read."""

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from penstock.client import Client
from penstock.errors import PenstockError
from penstock.testing.live_hub import LiveHub

ROOT = Path(__file__).parent.parent.parent
BATCH = 50
PATIENCE_S = 300.0


class Publisher(threading.Thread):
    """Publishes numbers until it is told to stop; they belong to so many accounts in turn. No batch is tried twice."""

    def __init__(self, url: str, accounts: int) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._accounts = accounts
        self._over = threading.Event()

    def run(self) -> None:
        with Client(self._url, patience=0) as client:
            n = 0
            while not self._over.is_set():
                batch = [{"account": str(k % self._accounts), "n": k} for k in range(n, n + BATCH)]
                try:
                    client.publish("booked", batch)
                except PenstockError:
                    time.sleep(0.05)  # It may be in the feed, or not: the feed is asked in the end.
                n += BATCH
                time.sleep(0.04)  # So that what is left can be caught up with on any machine.

    def stop(self) -> None:
        self._over.set()
        self.join()


def killed_again_and_again(
    hub: LiveHub,
    module: str,
    arguments: Sequence[str],
    *,
    kills: int,
    accounts: int,
    together: int = 1,
    has_begun: Callable[[], object] = lambda: True,
) -> None:
    """Run a program, so many *together*, and kill one or the hub so often, while numbers come in; at last all are dead.

    One that has ended by itself is started again. The last kill waits until the work *has_begun*.
    """
    seed = random.randrange(1 << 32)
    sys.stdout.write(f"seed {seed}\n")
    chance = random.Random(seed)
    publisher = Publisher(hub.url, accounts)
    publisher.start()
    running = [_start(module, arguments) for _ in range(together)]
    for left in reversed(range(kills)):
        time.sleep(chance.uniform(0.05, 0.6) * together)
        deadline = time.monotonic() + PATIENCE_S
        while not left and not has_begun():
            assert time.monotonic() < deadline, "nothing is done"
        if chance.random() < 0.7:
            _kill(running.pop(chance.randrange(together)))
            running.append(_start(module, arguments))
        else:
            hub.kill()
            hub.start()
        for process in [each for each in running if each.poll() is not None]:
            running.remove(process)
            running.append(_start(module, arguments))
    publisher.stop()
    for process in running:
        _kill(process)


def numbers(client: Client) -> list[int]:
    """Return all that is in the feed."""
    feed = client.feed("booked")
    cursors, found = feed.cursors(), list[Any]()
    while (page := feed.read(cursors)).events:
        found += [event.data["n"] for event in page.events]
        cursors = dict(page.cursors)
    return found


def _start(module: str, arguments: Sequence[str]) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    return process


def _kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
