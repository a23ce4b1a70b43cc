"""The cold tier's storage stands still, is slow or breaks: readers of the database and publishers do not notice."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock.errors import ColdTierUnavailable
from penstock.hub.background import system_clock
from penstock.hub.cold.adopting import adopt
from penstock.hub.cold.files import attach, find_unknown, verify
from penstock.hub.hub import Hub
from penstock.server.state import WORKERS
from penstock.storage import open_store
from penstock.storage.cold import tier
from tests.exhaustive import exhaustive
from tests.promises.scene import NAME, PATIENCE_SECONDS, create, event, until
from tests.s3 import cold_url
from tests.sealing import files_of, read_rows, seal, sealing_hub
from tests.server.in_process import Here, serve
from tests.storage_line import Mode, StorageLine, storage_line

SEALED, HOT, PUBLISHES = 40, 20, 10
READERS = 4 * WORKERS


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up on the storage sooner than in production, and ask it again sooner."""
    monkeypatch.setattr(tier, "ANSWER_SECONDS", 3.0)
    monkeypatch.setattr(tier, "AWAY_SECONDS", 0.2)


@contextmanager
def scene(url: str, bucket: str) -> Iterator[tuple[StorageLine, str]]:
    """Seal the events of a feed in a bucket behind a line."""
    cold = cold_url(bucket)
    [port] = re.findall(r"127\.0\.0\.1:(\d+)", cold)
    with storage_line(int(port)) as line:
        cold = cold.replace(port, str(line.port))
        with sealing_hub(url, cold) as hub:
            create(hub, partitions=1)
            publish(hub, range(SEALED))
            seal(hub)
            publish(hub, range(SEALED, SEALED + HOT))
            assert [each.stop for each in files_of(hub.store)] == [SEALED - 1]
        yield line, cold


def publish(hub: Hub, numbers: range) -> None:
    hub.log.publish(NAME, [event({"n": n}) for n in numbers])


async def read(here: Here, size: int, cursor: str = "_first") -> httpx2.Response:
    return await here.http.get(f"/feeds/{NAME}?n=1&cursor0={cursor}&pagesizehint={size}")


def numbers_in(answer: httpx2.Response) -> list[Any]:
    lines = [json.loads(line) for line in answer.text.splitlines()]
    return [each["data"]["n"] for each in lines if "data" in each]


@pytest.mark.parametrize("mode", ["silent", "error", *map(exhaustive, ("slow", "cut"))])
def test_hot_events_are_read_and_published_while_readers_of_sealed_ones_are_refused(
    migrated_url: str, bucket: str, mode: Mode
) -> None:
    with scene(migrated_url, bucket) as (line, cold):
        asyncio.run(read_in_trouble(Hub(open_store(migrated_url, cold)), line, mode))


async def read_in_trouble(hub: Hub, line: StorageLine, mode: Mode) -> None:
    async with serve(hub) as here:
        hot = json.loads((await read(here, 0, "_last")).text.splitlines()[-1])["cursor"]
        publish(hub, range(100, 100 + HOT))
        line.set_mode(mode)
        readers = [asyncio.create_task(read(here, 10)) for _ in range(READERS)]
        assert await asyncio.to_thread(line.reached.wait, PATIENCE_SECONDS)
        for n in range(PUBLISHES):
            posted = await here.post_lines(NAME, json.dumps({"data": {"n": n}, "partition": 0}).encode())
            assert posted.status_code == 200
            assert numbers_in(await read(here, HOT, hot)) == [*range(100, 100 + HOT)]
        if mode in ("silent", "slow"):
            assert not all(each.done() for each in readers)
        for each in await asyncio.gather(*readers):
            assert each.status_code == 503
            assert each.json()["type"] == "urn:penstock:problem:cold-tier-unavailable"
            assert int(each.headers["retry-after"]) > 0

        line.set_mode("whole")
        again = await read(here, SEALED)
        while again.status_code == 503:
            await asyncio.sleep(0.05)
            again = await read(here, SEALED)
        assert numbers_in(again) == [*range(SEALED)]


@pytest.mark.parametrize("mode", [exhaustive("cut"), "error"])
def test_sealing_goes_on_once_the_storage_is_back(migrated_url: str, bucket: str, mode: Mode) -> None:
    with scene(migrated_url, bucket) as (line, cold), sealing_hub(migrated_url, cold) as hub:
        before = read_rows(hub, 1)
        attach(hub.store)
        line.set_mode(mode)
        with pytest.raises(ColdTierUnavailable):
            hub.cold.sealer.run()
        line.set_mode("whole")
        until(lambda: is_asked(hub), "the storage is asked again")
        seal(hub)

        assert read_rows(hub, 1) == before
        assert [each.stop for each in files_of(hub.store)] == [SEALED - 1, SEALED + HOT - 1]


def is_asked(hub: Hub) -> bool:
    """Return whether the storage answers; a hub does not ask just after a failure."""
    try:
        attach(hub.store)
    except ColdTierUnavailable:
        return False
    return True


@pytest.mark.parametrize("mode", ["error", exhaustive("cut")])
def test_storage_in_trouble_makes_no_file_damaged_or_unknown(
    migrated_url: str, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    new_url = f"sqlite:///{tmp_path}/new.db"
    with scene(migrated_url, bucket) as (line, cold):
        with sealing_hub(migrated_url, cold) as hub, monkeypatch.context() as patch:
            attach(hub.store)
            patch.setattr("penstock.hub.cold.files.attach", lambda _: None)  # Trouble begins after that.
            line.set_mode(mode)
            for look in (verify, find_unknown):
                with pytest.raises(ColdTierUnavailable):
                    list(look(hub.store))
            with pytest.raises(ColdTierUnavailable):
                adopt_in(new_url, cold)
        line.set_mode("whole")
        with sealing_hub(migrated_url, cold) as hub:
            until(lambda: is_asked(hub), "the storage answers again")
            assert list(verify(hub.store)) == list(find_unknown(hub.store)) == []
        assert adopt_in(new_url, cold) == [(0, SEALED - 1)]


def adopt_in(url: str, cold: str) -> list[tuple[int, int]]:
    """Adopt the files in a new database, and return the offsets that it has."""
    with sealing_hub(url, cold) as hub:
        return [(each.start, each.stop) for each in adopt(hub.store, system_clock)]
