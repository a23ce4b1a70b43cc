"""What files of a cold tier hold beside the events as they were published."""

import io
import json
import re

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.cold import parquet
from penstock.cold.parquet import ColdFile, DamagedFileError
from penstock.typed import RESCUED, TYPED
from penstock.typed.decoding import TypedDecoder
from tests.unit.cold.files import describe, write_file
from tests.unit.spark.kinds import arrow

KIND = "struct<id:bigint,at:timestamp,lines:array<struct<price:decimal(38,18)>>,tags:map<string,string>,`a.b`:string>"
TYPE = arrow(KIND.replace("`", ""))
TEXTS = [
    json.dumps({"id": n, "at": "2026-01-01T10:00:00Z", "lines": [{"price": "1.5"}], "tags": {"a": "b"}, "a.b": "x"})
    for n in range(1_000)
]
STRANGE = ['{"id":"x"}', '{"id":1,"more":true}', '{"id":null}']


def open_file(body: bytes) -> ColdFile:
    return ColdFile(pa.BufferReader(body))


def test_typed_columns_have_what_decoding_gives() -> None:
    body = write_file(TEXTS + STRANGE, TYPE)

    table = pq.read_table(io.BytesIO(body))

    events, rests = TypedDecoder(TYPE, rescues=True)(pa.array(TEXTS + STRANGE))
    assert table[TYPED].combine_chunks().equals(events)
    assert rests is not None and table[RESCUED].to_pylist() == rests.to_pylist()
    assert table[RESCUED].to_pylist()[-3:] == ['{"id":"x"}', '{"more":true}', None]
    assert open_file(body).typed_type == TYPE


def test_what_a_file_has_does_not_depend_on_typed_columns() -> None:
    typed, plain = open_file(write_file(TEXTS, TYPE)), open_file(write_file(TEXTS, None))

    assert typed.check() == plain.check()
    assert typed.read_group(0) == plain.read_group(0)
    assert plain.typed_type is None


def test_members_of_typed_events_have_statistics() -> None:
    metadata = pq.read_metadata(io.BytesIO(write_file(TEXTS, TYPE)))

    columns = [metadata.row_group(0).column(number) for number in range(metadata.num_columns)]
    found = {each.path_in_schema: each.statistics for each in columns if each.is_stats_set}
    assert (found["typed.id"].min, found["typed.id"].max) == (0, 999)
    assert {name for name in found if name.startswith("typed.")} == {
        "typed.id", "typed.at", "typed.lines.list.element.price", "typed.tags.key_value.key",
        "typed.tags.key_value.value", "typed.a.b",
    }  # fmt: skip
    assert "data" not in found


def test_events_with_too_many_members_have_no_typed_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "TYPED_LEAVES_MAX", 5)

    assert open_file(write_file(TEXTS, TYPE)).typed_type is None
    assert open_file(write_file(TEXTS, arrow("struct<id:bigint>"))).typed_type is not None
    assert open_file(write_file(TEXTS, pa.struct([]))).typed_type is None


def test_damaged_typed_column_is_found() -> None:
    body = bytearray(
        write_file([json.dumps({"name": f"unique name {n}"}) for n in range(1_000)], arrow("struct<name:string>"))
    )
    column = pq.read_metadata(io.BytesIO(bytes(body))).row_group(0).column(7)
    assert column.path_in_schema == "typed.name"
    at = column.data_page_offset + column.total_compressed_size // 2
    body[at] ^= 0xFF

    file = open_file(bytes(body))

    assert file.read_group(0).num_rows == 1_000  # Feeds do not need it.
    with pytest.raises(DamagedFileError, match=re.compile("crc|checksum|corrupt|decompress", re.IGNORECASE)):
        file.check()


def test_other_columns_than_those_of_a_cold_tier_are_refused() -> None:
    sink, table = io.BytesIO(), pq.read_table(io.BytesIO(write_file(TEXTS, TYPE))).drop_columns([RESCUED])
    with pq.ParquetWriter(sink, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({parquet.METADATA: msgspec.json.encode(describe(len(TEXTS)))})

    with pytest.raises(DamagedFileError, match="its columns are not those of a cold tier"):
        open_file(sink.getvalue())
