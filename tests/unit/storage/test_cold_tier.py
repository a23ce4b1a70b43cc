"""A cold tier reads ahead of its readers, and keeps its directory to its user."""

import stat
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.cold import parquet
from penstock.cold.description import FileContent
from penstock.cold.storage import DirectoryStorage, open_storage
from penstock.errors import BadParameter, ColdTierUnavailable
from penstock.storage.cold.manifest import ManifestFile
from penstock.storage.cold.tier import ColdTier, make_path
from tests.promises.scene import until
from tests.unit.cold.files import write_file

ROWS, GROUPS = 10, 8


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have files of groups with ten rows, and tell which groups were read from the storage."""
    found: list[int] = []
    read_group = parquet.ColdFile.read_group

    def read(file: parquet.ColdFile, group: int) -> pa.RecordBatch:
        found.append(group)
        return read_group(file, group)

    monkeypatch.setattr(parquet, "GROUP_ROWS", ROWS)
    monkeypatch.setattr(parquet.ColdFile, "read_group", read)
    return found


@pytest.fixture
def file(tmp_path: Path, loaded: list[int]) -> ManifestFile:
    path = make_path("order.placed", 0, 0, ROWS * GROUPS)
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_bytes(write_file(["{}"] * ROWS * GROUPS, None))
    return ManifestFile(path, 1, "sealed", 0, ROWS * GROUPS, FileContent(0, 0, 0, 0, ""), 0, 0)


def read(tier: ColdTier, file: ManifestFile, group: int) -> None:
    """Read an event of a group, and wait until nothing is read any more."""
    batch, stop = tier.read(file, ROWS * group + 1, ROWS * group + 2)
    assert (batch.num_rows, stop) == (1, ROWS * group + 2)
    until(lambda: not tier._asked, "all reads have ended")


def test_directory_that_is_made_is_for_its_user_alone_and_one_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    for name in ("made", "shared"):
        DirectoryStorage(tmp_path / name).write("order.placed/0/a.parquet", b"events")

    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("made", "shared")] == [0o700, 0o755]


def test_file_is_refused_as_a_directory_of_a_cold_tier(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(BadParameter, match="the URL of a directory, which this file is not"):
        open_storage((tmp_path / "file").as_uri())


def test_whoever_reads_on_finds_the_next_row_group_in_memory(
    tmp_path: Path, file: ManifestFile, loaded: list[int]
) -> None:
    tier = ColdTier.at(tmp_path.as_uri())
    seen = []
    for group in range(GROUPS):
        read(tier, file, group)
        seen.append(len(loaded))

    assert loaded == [*range(GROUPS)], "each once"
    assert seen == [*range(2, GROUPS + 1), GROUPS], "one ahead, up to the last"


def test_nothing_is_read_ahead_of_reads_here_and_there(tmp_path: Path, file: ManifestFile, loaded: list[int]) -> None:
    tier = ColdTier.at(tmp_path.as_uri())
    for group in (6, 2, 4):
        read(tier, file, group)

    assert loaded == [6, 2, 4]


def test_failure_to_read_ahead_is_told_to_whoever_needs_the_events(
    tmp_path: Path, file: ManifestFile, loaded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    tier = ColdTier(ColdTier.at(tmp_path.as_uri())._storage, lambda: now)
    found = parquet.ColdFile.read_group
    is_away = True

    def fail(file: parquet.ColdFile, group: int) -> pa.RecordBatch:
        if group == 1 and is_away:
            loaded.append(group)
            raise OSError(5, "the disk is away")
        return found(file, group)

    monkeypatch.setattr(parquet.ColdFile, "read_group", fail)
    read(tier, file, 0)
    assert loaded == [0, 1]
    with pytest.raises(ColdTierUnavailable, match="the disk is away"):
        read(tier, file, 1)
    read(tier, file, 0)
    assert loaded == [0, 1], "it is not asked again at once, neither for readers nor ahead of them"

    now, is_away = 60.0, False
    read(tier, file, 1)
    assert loaded == [0, 1, 1, 2]
