"""A hub that seals is killed again and again while others publish and read: each event is there once."""

import time
from pathlib import Path

import pytest

from penstock.hub.background import system_clock
from penstock.hub.cold.files import find_unknown, verify
from penstock.hub.cold.sealing import ABANDONED_SECONDS
from tests.exhaustive import examples, seeds
from tests.promises.processes import FORKSERVER, run_processes, seal_forever
from tests.promises.scene import NAME, PATIENCE_SECONDS, Follower, create, event, rows_of, seeded
from tests.sealing import EVENT_ROWS, files_of, paths_in, seal, sealing_hub, sweep

PARTITIONS, KILLS, BATCH = 2, examples(2, 8), 20


@pytest.mark.parametrize("seed", seeds(1, 6))
def test_each_event_is_there_once_whenever_sealing_hubs_are_killed(url: str, tmp_path: Path, seed: int) -> None:
    chance, root, ahead = seeded(seed), tmp_path / "cold", 0.0
    count = 0

    def clock() -> int:
        return system_clock() + int(ahead * 1e6)

    with sealing_hub(url, root.as_uri()) as hub, sealing_hub(url, root.as_uri(), clock=clock) as last:
        create(hub, partitions=PARTITIONS)
        reader = Follower(hub, range(PARTITIONS))
        hub.cold.sealer.run()
        for kills in range(20 * KILLS):
            if kills >= KILLS and len(files_of(hub.store)) > KILLS:
                break
            ahead += ABANDONED_SECONDS + 100  # The next one does not wait for the file of the one that was killed.
            began = FORKSERVER.Event()
            given = (url, root.as_uri(), ahead, chance.getrandbits(32), began)
            with run_processes(seal_forever, given, given) as processes:
                assert began.wait(PATIENCE_SECONDS)
                until = time.monotonic() + chance.uniform(0.0, 0.3)
                while time.monotonic() < until:
                    hub.log.publish(NAME, [event({"n": n}, n % PARTITIONS) for n in range(count, count + BATCH)])
                    count += BATCH
                    reader.page(chance.choice([7, 100, 1_000]))
                for each in processes:
                    each.kill()
            sweep(hub.store)
        else:
            pytest.fail(f"{kills + 1} killed rounds sealed no more than {len(files_of(hub.store))} files")

        numbers = [[*range(partition, count, PARTITIONS)] for partition in range(PARTITIONS)]
        for each in (reader, Follower(hub, range(PARTITIONS))):
            each.all(777)
            assert [[event["n"] for event in each.found[partition]] for partition in range(PARTITIONS)] == numbers
        for _ in range(3):
            ahead += ABANDONED_SECONDS + 100
            seal(last)
        assert len(rows_of(url, EVENT_ROWS)) == PARTITIONS
        assert files_of(hub.store, "writing") == files_of(hub.store, "removed") == []
        assert find_unknown(hub.store) == list(verify(hub.store)) == []
        assert {path.relative_to(root).as_posix() for path in root.rglob("*.part")} == set()
        assert paths_in(root) == {each.path for each in files_of(hub.store)}
