from penstock.spark.zeroeventhub.columns import SCHEMA, remote_schema


def test_headers_are_there_if_they_are_asked_for() -> None:
    assert remote_schema(include_headers=False).names == ["partition", "number", "data"]
    assert remote_schema(include_headers=True) == SCHEMA
