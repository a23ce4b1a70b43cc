"""Several processors of one name share the tranches by leases: none is read twice at once, and none is left."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client
from penstock.errors import BadParameter
from penstock.processing import (
    DatabaseCheckpoints,
    FeedSource,
    FileSource,
    Local,
    MemoryCheckpoints,
    MemorySource,
    Rules,
)
from penstock.processing.checkpoints.leases import DatabaseLeases
from penstock.processing.sharing import Held
from penstock.testing.live_hub import LiveHub, live_hub
from tests.processing.shared_work import handler_in

ROOT = Path(__file__).parent.parent.parent
CUSTOMERS = 20


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LiveHub]:
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type(
            "order.placed", partition_count=6, partition_strategy="hash", partition_key_fields=["customer"]
        )
        yield hub


def publish(hub: LiveHub, numbers: range) -> None:
    with Client(hub.url) as client:
        client.publish("order.placed", [{"customer": str(n % CUSTOMERS), "n": n} for n in numbers])


def until(check: Callable[[], bool], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "that has not come"
        time.sleep(0.05)


def handled(folder: Path) -> dict[str, list[str]]:
    return {path.stem.rpartition("-")[2]: path.read_text().splitlines() for path in folder.glob("*.log")}


def wanted(numbers: range) -> dict[str, list[str]]:
    return {str(key): [str(n) for n in numbers if n % CUSTOMERS == key] for key in range(CUSTOMERS)}


def test_leases_are_of_the_processor_whose_checkpoints_all_have(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shared.db"
    leases = DatabaseLeases(url, "mailer")
    with pytest.raises(BadParameter, match="leases is 'mailer'; allowed: leases of 'ledger', as the checkpoints are"):
        Local(print, MemorySource(), checkpoints=DatabaseCheckpoints(url, "ledger"), leases=leases)
    for kept in (None, MemoryCheckpoints("mailer")):
        with pytest.raises(BadParameter, match="checkpoints is 'in memory'; allowed: those that others have, too"):
            Local(print, MemorySource(), checkpoints=kept, leases=leases)
    with pytest.raises(BadParameter, match=r"leases is 'sqlite:///…|leases is 'sqlite://…"):
        Local(print, MemorySource(), checkpoints=DatabaseCheckpoints(url, "mailer"), leases=url)  # type: ignore[arg-type]
    Local(print, MemorySource(), checkpoints=DatabaseCheckpoints(url, "mailer"), leases=leases)


def test_who_comes_has_a_share_and_who_goes_leaves_it_and_each_event_is_handled_once(
    hub: LiveHub, database_url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "handled"
    folder.mkdir()
    checkpoints = DatabaseCheckpoints(database_url, "mailer")

    def local() -> Local:
        leases = DatabaseLeases(database_url, "mailer", lease_s=8.0)
        source = FeedSource(hub.url, "order.placed")
        return Local(handler_in(str(folder)), source, checkpoints=checkpoints, leases=leases, commit_s=0.1).start()

    def shares() -> list[int]:
        return sorted(len(each._progress._open - each._progress.closing) for each in running)

    publish(hub, range(400))
    running = [local()]
    until(lambda: shares() == [6])
    publish(hub, range(400, 600))
    running.append(local())
    until(lambda: shares() == [3, 3])
    publish(hub, range(600, 800))
    running.append(local())
    until(lambda: shares() == [2, 2, 2])
    publish(hub, range(800, 1000))
    running.pop(0).stop()
    until(lambda: shares() == [3, 3])
    publish(hub, range(1000, 1200))
    until(lambda: sum(map(len, handled(folder).values())) == 1200)
    for each in running:
        each.stop()
    assert handled(folder) == wanted(range(1200))


def test_who_is_killed_is_followed_when_its_lease_is_over(hub: LiveHub, database_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "handled"
    folder.mkdir()
    arguments = [
        sys.executable,
        "-m",
        "tests.processing.shared_work",
        hub.url,
        database_url,
        "order.placed",
        str(folder),
    ]
    processes: list[Any] = []

    def start() -> None:
        processes.append(subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        assert processes[-1].stdout.readline() == "running\n"

    def kill(number: int) -> None:
        process = processes.pop(number)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()

    start()
    start()
    total = 0
    for number in (0, 1, 0):
        publish(hub, range(total, total + 300))
        total += 300
        time.sleep(0.4)
        kill(number)
        start()
    publish(hub, range(total, total + 100))
    total += 100
    checkpoints = DatabaseCheckpoints(database_url, "order.placed")
    with FeedSource(hub.url, "order.placed") as source:
        until(lambda: not any(source.behind(checkpoints.positions()).values()))
    while processes:
        kill(0)
    found = handled(folder)
    assert not [key for key, lines in found.items() if "two at once" in lines]
    # What was handled and not committed when its processor was killed has come again: in order, from there on.
    assert {key: list(dict.fromkeys(lines)) for key, lines in found.items()} == wanted(range(total))


def test_a_file_that_is_gone_holds_nobody_and_is_forgotten(database_url: str, tmp_path: Path) -> None:
    def made(number: int) -> Path:
        path = tmp_path / f"{number}.ndjson"
        path.write_text(f'{{"k": "{number}"}}\n')
        return path

    def handled() -> list[str]:
        seen: list[str] = []
        with Local(
            lambda stream, _: seen.append(stream),
            FileSource(f"{tmp_path}/*.ndjson", stream=["k"]),
            checkpoints=DatabaseCheckpoints(database_url, "p"),
            leases=DatabaseLeases(database_url, "p", lease_s=1.0),
            commit_s=0.05,
        ) as running:
            running.wait_until_caught_up(300)
        return sorted(seen)

    first, second = made(1), made(2)
    assert handled() == ["1", "2"]
    first.unlink()
    third = made(3)
    assert handled() == ["3"]

    shared = DatabaseLeases(database_url, "p").renew([f"{second}", f"{third}"])
    assert sorted(shared.tranches) == [f"{second}", f"{third}"], "of the first nobody speaks any more"


def test_who_holds_gets_nothing_more_and_keeps_what_it_has_until_it_lets_go_of_it(database_url: str) -> None:
    first, second = (DatabaseLeases(database_url, "mailer") for _ in range(2))
    assert first.renew(["a", "b"]).tranches == {"a", "b"}
    assert first.hold().tranches == {"a", "b"}, "nobody else wants them"
    assert second.renew(["a", "b", "c"]) == Held(frozenset("c"), frozenset(), frozenset("ab"))
    assert first.hold() == Held(frozenset(), frozenset("ab"))
    assert first.release(["a"]).leaving == {"b"}
    assert second.renew(["a", "b", "c", "d"]).tranches == {"a", "c", "d"}
    first.leave()
    assert second.renew([]).tranches == {"a", "b", "c", "d"}


def test_what_is_leased_for_a_second_is_so_for_a_second(database_url: str) -> None:
    """Not until a clock of whole seconds moves on."""
    first, second = (DatabaseLeases(database_url, "mailer", lease_s=1.0) for _ in range(2))
    for lease in (first, second):
        lease.renew(["a", "b"])
        lease.leave()
    time.sleep(1.9 - time.time() % 1)
    assert first.renew(["a", "b"]).tranches == {"a", "b"}
    time.sleep(0.3)
    assert not second.renew(["a", "b"]).tranches


def test_who_requires_all_cannot_share(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shared.db"
    checkpoints, leases = DatabaseCheckpoints(url, "mailer"), DatabaseLeases(url, "mailer")
    with pytest.raises(BadParameter, match="require_all is True; allowed: False where leases are given"):
        Local(print, MemorySource(), checkpoints=checkpoints, leases=leases, rules=Rules(require_all=True))


def test_bad_parameters_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="lease_s is 0; allowed: more than 0"):
        DatabaseLeases(f"sqlite:///{tmp_path}/app.db", "mailer", lease_s=0)
