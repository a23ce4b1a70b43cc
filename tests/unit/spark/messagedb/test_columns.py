from penstock.spark.messagedb.columns import SCHEMA, expression


def test_every_column_but_the_category_is_read_from_the_table() -> None:
    assert [name for name in SCHEMA.names if not expression(name)] == ["category"]
