"""Several processors of one name share the tranches by leases: none is read twice at once, and none is left."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client
from penstock.core.groups.leases import GroupLeases, MemberTranches
from penstock.errors import BadParameter
from penstock.processing import DatabaseCheckpoints, FeedSource, LocalProcessor, Rules
from penstock.processing.checkpoints import HubLeases, MemoryCheckpoints
from penstock.processing.checkpoints.leases import DatabaseLeases
from penstock.processing.sources import FileSource, MemorySource
from penstock.testing.live_hub import LiveHub, live_hub
from tests.exhaustive import examples
from tests.processing.office import until
from tests.processing.programs import Program, running
from tests.processing.shared_work import HUB, handler_in, keepers

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


def read_handled(folder: Path) -> dict[str, list[str]]:
    return {path.stem.rpartition("-")[2]: path.read_text().splitlines() for path in folder.glob("*.log")}


def expected_lines(numbers: range) -> dict[str, list[str]]:
    return {str(key): [str(n) for n in numbers if n % CUSTOMERS == key] for key in range(CUSTOMERS)}


def test_tranches_are_shared_out_as_processors_join_and_stop_without_repeats(
    hub: LiveHub, database_url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "handled"
    folder.mkdir()
    checkpoints = DatabaseCheckpoints(database_url, "mailer")

    def local() -> LocalProcessor:
        leases = DatabaseLeases(database_url, "mailer", lease_seconds=4.0)
        source = FeedSource(hub.url, "order.placed")
        return LocalProcessor(
            handler_in(str(folder)), source, checkpoints=checkpoints, leases=leases, commit_interval=0.1
        ).start()

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
    until(lambda: sum(map(len, read_handled(folder).values())) == 1200)
    for each in running:
        each.stop()
    assert read_handled(folder) == expected_lines(range(1200))


@pytest.mark.parametrize("is_at_hub", [False, True], ids=["database", "hub"])
def test_successor_takes_the_lease_of_a_killed_processor_and_no_stream_is_with_two(
    hub: LiveHub, database_url: str, tmp_path: Path, is_at_hub: bool
) -> None:
    database_url = HUB if is_at_hub else database_url
    folder = tmp_path / "handled"
    folder.mkdir()
    arguments = ("-m", "tests.processing.shared_work", hub.url, database_url, "order.placed", str(folder))
    alive: list[Program] = []
    with ExitStack() as programs:

        def start() -> None:
            alive.append(programs.enter_context(running(*arguments)))
            assert alive[-1].line() == "running"

        start()
        start()
        total = 0
        for turn in range(examples(1, 3)):
            publish(hub, range(total, total + 300))
            until(lambda: sum(map(len, read_handled(folder).values())) > total)  # noqa: B023 - It is called at once.
            total += 300
            alive.pop(turn % 2).kill()
            start()
        publish(hub, range(total, total + 100))
        total += 100
        checkpoints, _ = keepers(hub.url, database_url, "order.placed")
        with FeedSource(hub.url, "order.placed") as source:
            until(lambda: not any(source.behind(checkpoints.positions()).values()))
    found = read_handled(folder)
    assert not [key for key, lines in found.items() if "two at once" in lines]
    # Events that were handled and not committed before the kill come again: in order, from there on.
    assert {key: list(dict.fromkeys(lines)) for key, lines in found.items()} == expected_lines(range(total))


def test_lease_of_a_removed_file_is_forgotten(database_url: str, tmp_path: Path) -> None:
    def write_file(number: int) -> Path:
        path = tmp_path / f"{number}.ndjson"
        path.write_text(f'{{"k": "{number}"}}\n')
        return path

    def read_handled() -> list[str]:
        seen: list[str] = []
        with LocalProcessor(
            lambda stream, _: seen.append(stream),
            FileSource(f"{tmp_path}/*.ndjson", stream=["k"]),
            checkpoints=DatabaseCheckpoints(database_url, "p"),
            leases=DatabaseLeases(database_url, "p", lease_seconds=1.0),
            commit_interval=0.05,
        ) as running:
            running.wait_until_caught_up(300)
        return sorted(seen)

    first, second = write_file(1), write_file(2)
    assert read_handled() == ["1", "2"]
    first.unlink()
    third = write_file(3)
    assert read_handled() == ["3"]

    shared = DatabaseLeases(database_url, "p").renew([f"{second}", f"{third}"])
    assert sorted(shared.tranches) == [f"{second}", f"{third}"], "the first one is gone"


NewLeases = Callable[..., DatabaseLeases | HubLeases]
A, B, C, D = (f"order.placed/{partition}" for partition in range(4))


@pytest.fixture(params=["sqlite", "postgres", "hub on sqlite", "hub on postgres"])
def leases(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewLeases]:
    """Makes the leases of one more processor called `mailer`."""
    url = f"sqlite:///{tmp_path}/a.db" if "sqlite" in request.param else request.getfixturevalue("postgres_url")
    if "hub" not in request.param:
        yield lambda **given: DatabaseLeases(url, "mailer", **given)
        return
    with live_hub(url) as hub, Client(hub.url) as client:
        client.create_event_type("order.placed", partition_count=6)
        yield lambda **given: HubLeases(hub.url, "mailer", **given)


def test_leaving_processor_keeps_its_tranches_until_it_releases_them(leases: NewLeases) -> None:
    first, second = leases(), leases()
    assert first.renew([A, B]).tranches == {A, B}
    assert first.hold().tranches == {A, B}, "nobody else wants them"
    assert second.renew([A, B, C]) == MemberTranches(frozenset([C]), frozenset(), frozenset([A, B]))
    assert first.hold() == MemberTranches(frozenset(), frozenset([A, B]))
    assert first.release([A]).leaving == {B}
    assert second.renew([A, B, C, D]).tranches == {A, C, D}
    first.leave()
    assert second.renew([]).tranches == {A, B, C, D}


def test_lease_that_is_not_renewed_ends_and_another_processor_has_its_tranches(leases: NewLeases) -> None:
    gone, there = leases(lease_seconds=0.2), leases()
    assert gone.renew([A, B]).tranches == {A, B}
    until(lambda: there.renew([A, B]).tranches == {A, B})
    assert gone.release([A, B]) == MemberTranches(frozenset(), frozenset())
    assert there.renew([]).tranches == {A, B}, "what is another's is not released"


def test_lease_ends_by_a_clock_of_microseconds(database_url: str) -> None:
    """A clock of whole seconds would end a lease of one second at once, or after two."""
    leases, times = DatabaseLeases(database_url, "mailer"), list[int]()

    def note(shared: GroupLeases, now: int) -> GroupLeases:
        times.append(now)
        return shared

    for _ in range(3):
        leases._change(note)
    assert sorted(times) == times
    assert any(time % 1_000_000 for time in times)


@pytest.mark.parametrize(
    ("leases", "checkpoints", "rules", "told"),
    [
        (
            "mailer", "ledger", Rules(),
            "leases is 'mailer'; allowed: leases of 'ledger', as the checkpoints are",
        ),
        ("mailer", None, Rules(), "checkpoints is 'in memory'; allowed: those that others have, too"),
        ("mailer", "in memory", Rules(), "checkpoints is 'in memory'; allowed: those that others have, too"),
        ("a URL", "mailer", Rules(), "leases is 'sqlite://"),
        ("mailer", "mailer", Rules(require_all=True), "require_all is True; allowed: False where leases are given"),
    ],
    ids=["of another name", "no checkpoints", "in memory", "no leases", "all required"],
)  # fmt: skip
def test_leases_that_do_not_fit_the_processor_are_refused(
    tmp_path: Path, leases: str, checkpoints: str | None, rules: Rules, told: str
) -> None:
    url = f"sqlite:///{tmp_path}/shared.db"
    given: Any = url if leases == "a URL" else DatabaseLeases(url, leases)
    kept: Any = checkpoints and (
        MemoryCheckpoints("mailer") if checkpoints == "in memory" else DatabaseCheckpoints(url, checkpoints)
    )
    with pytest.raises(BadParameter, match=told):
        LocalProcessor(print, MemorySource(), checkpoints=kept, leases=given, rules=rules)
    LocalProcessor(
        print, MemorySource(), checkpoints=DatabaseCheckpoints(url, "mailer"), leases=DatabaseLeases(url, "mailer")
    )
