"""Typed events of the cold tier come from typed columns wherever these have what the query wants."""

import json
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from penstock.cold import parquet
from penstock.cold.storage import MARK
from penstock.errors import AccessDenied, BadParameter, ColdTierUnavailable, PenstockError
from penstock.spark import cold
from penstock.spark.cold import ColdPages
from penstock.spark.columns import QueryColumn
from penstock.spark.connection import ColdFiles, SealedFile
from penstock.spark.patience import Patience
from penstock.spark.planning import Range
from penstock.spark.reading import PageSource, read_range
from penstock.spark.shape import Shape
from penstock.typed.decoding import TypedDecoder
from tests.unit.cold.files import TIER, write_file
from tests.unit.spark.kinds import arrow, struct

NAME, PATH = "order.placed", "order.placed/0/file.parquet"
WRITTEN = arrow("struct<id:bigint,name:string,o:struct<x:bigint,y:bigint>>")
TEXTS = [json.dumps({"id": n, "name": f"é{n}", "o": {"x": n, "y": -n}}) for n in range(20)]
STRANGE = ['{"id":"x","more":[1]}', '{"id":null,"o":null}', "{}"]


def read(folder: Path, texts: list[str], members: str, *others: str, written: pa.DataType = WRITTEN) -> list[Any]:
    """Return the rows of a query of typed events, from a file."""
    file = folder / PATH
    file.parent.mkdir(parents=True)
    file.write_bytes(write_file(texts, written))
    sealed = ColdFiles(TIER, 1, (SealedFile(PATH, 0, len(texts)),))
    kind: StructType = struct(members)
    columns = (QueryColumn("offset", False), QueryColumn("data", True, kind), *(QueryColumn(n, True) for n in others))
    pages = ColdPages(cast("PageSource", None), lambda _: sealed, folder.as_uri(), columns)
    shape = Shape(columns)
    wanted = Range(NAME, 1, 1, 0, 3, len(texts))
    return [row for part in pages.page(wanted, with_headers=False) for row in shape(part.batch, NAME).to_pylist()]


def decoded(texts: list[str], members: str, *others: str) -> list[Any]:
    """Return the same rows, from their JSON alone."""
    events, rests = TypedDecoder(arrow(f"struct<{members}>"), rescues=True)(pa.array(texts))
    assert rests is not None
    made = {"rescued_data": rests.to_pylist(), "json": texts}
    return [
        {"offset": n, "data": event} | {name: made[name][n] for name in others}
        for n, event in enumerate(events.to_pylist())
    ][3:]


@pytest.mark.parametrize(
    ("members", "others"),
    [
        ("id:bigint", ()),
        ("o:struct<y:bigint>,name:string", ()),
        ("id:bigint,later:string", ()),
        ("id:bigint,name:string,o:struct<x:bigint,y:bigint>", ("rescued_data",)),
        ("id:bigint", ("json",)),
    ],
)
def test_typed_columns_are_not_decoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: str, others: tuple[str, ...]
) -> None:
    class Refusing(TypedDecoder):
        def __call__(self, texts: pa.Array) -> Any:
            pytest.fail(f"{len(texts)} events were decoded")

    monkeypatch.setattr("penstock.spark.shape.TypedDecoder", Refusing)

    assert read(tmp_path, TEXTS, members, *others) == decoded(TEXTS, members, *others)


@pytest.mark.parametrize(
    ("members", "others"),
    [
        ("id:bigint", ()),
        ("id:string", ()),
        ("id:bigint,more:array<bigint>", ()),
        ("id:bigint,name:string,o:struct<x:bigint,y:bigint>", ("rescued_data", "json")),
        ("o:struct<x:bigint>", ("rescued_data",)),
        ("o:struct<z:bigint>", ("json",)),
    ],
)
def test_rows_are_those_that_decoding_gives(tmp_path: Path, members: str, others: tuple[str, ...]) -> None:
    texts = TEXTS + STRANGE

    assert read(tmp_path, texts, members, *others) == decoded(texts, members, *others)


def test_files_without_typed_columns_are_decoded(tmp_path: Path) -> None:
    assert read(tmp_path, TEXTS, "id:bigint", written=pa.struct([])) == decoded(TEXTS, "id:bigint")


def test_hub_is_asked_again_while_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 5)
    monkeypatch.setattr(cold, "LISTED_SECONDS", -1.0)
    (tmp_path / PATH).parent.mkdir(parents=True)
    (tmp_path / PATH).write_bytes(write_file(TEXTS, None))
    asked: list[int] = []

    def find(wanted: Range) -> ColdFiles:
        asked.append(wanted.start)
        if len(asked) > 2:
            raise AccessDenied(operation="READ", resource=NAME)
        return ColdFiles(TIER, 1, (SealedFile(PATH, 0, len(TEXTS)),))

    pages = ColdPages(cast("PageSource", None), find, tmp_path.as_uri(), [QueryColumn("offset", False)])
    wanted = Range(NAME, 1, 1, 0, 0, len(TEXTS))
    with pytest.raises(AccessDenied):
        list(read_range(pages, wanted, Patience(0.0), fail_on_loss=True, with_headers=False))

    assert asked == [0, 5, 10]


@pytest.mark.parametrize(
    ("mark", "error"),
    [(None, BadParameter), ('{"id":"another"}', BadParameter), (f'{{"id":"{TIER}"}}', ColdTierUnavailable)],
)
def test_missing_file_is_looked_for_again_only_in_the_cold_tier_of_the_hub(
    tmp_path: Path, mark: str | None, error: type[PenstockError]
) -> None:
    if mark is not None:
        (tmp_path / MARK).write_text(mark)
    sealed = ColdFiles(TIER, 1, (SealedFile(PATH, 0, 3),))
    pages = ColdPages(cast("PageSource", None), lambda _: sealed, tmp_path.as_uri(), [QueryColumn("offset", False)])

    with pytest.raises(error):
        next(pages.page(Range(NAME, 1, 1, 0, 0, 3), with_headers=False))
