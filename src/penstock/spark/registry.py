"""Asks the hub's registry for schemas, once for a query, when the query is made."""

import json
from collections.abc import Callable
from typing import Any, Protocol

from pyspark.sql.types import DecimalType, StructType

from penstock.errors import BadParameter
from penstock.spark.arrow_types import leaves, spark_type
from penstock.spark.columns import Registered
from penstock.spark.connection import RegisteredSchema
from penstock.spark.options import SourceOptions
from penstock.typed.columns import decimal_strings, event_columns, merge


class SchemaLookup(Protocol):
    """Finds schemas: implemented by a hub's client."""

    def load_schema(self, event_type: str, version: str | None) -> RegisteredSchema:
        """See `RemoteHub.load_schema`."""


def find_typed_columns(registry: SchemaLookup, options: SourceOptions) -> Registered:
    """Return the columns of the events that a query reads, by the versions that its options name.

    Raises:
        BadParameter: a schema names no members.
        EventTypeNotFound, SchemaVersionNotFound: there is none.
    """
    found = {name: registry.load_schema(name, options.schema_versions.get(name)) for name in options.event_types}
    columns = {name: event_columns(each.schema, each.category) for name, each in found.items()}
    for name, each in columns.items():
        if not each.num_fields:
            allowed = (
                f"json: the schema of {name!r}, version {found[name].version}, names no members. Name them yourself, "
                'as in .schema("offset bigint, data struct<order_id: bigint>"), or give the event type a schema'
            )
            raise BadParameter(
                f"option payload is {options.payload!r}; allowed: {allowed}",
                parameter="payload",
                value=options.payload,
                allowed=allowed,
            )
    return Registered(spark_type(merge(columns.values())), {name: each.version for name, each in found.items()})


def decimals_as_text(rows: StructType, told: Callable[[], dict[str, Any]]) -> frozenset[str]:
    """Return the decimals within `data` of *rows* that the event type wants as strings, named as for `json_text`.

    Args:
        rows: The schema of the rows that a query publishes.
        told: Returns the event type as the hub describes it. It is called only if there are decimals.
    """
    data = rows["data"].dataType if "data" in rows.names else None
    if not isinstance(data, StructType):
        return frozenset()
    decimals = frozenset(name for name, kind in leaves(data, "data") if isinstance(kind, DecimalType))
    if not decimals:
        return frozenset()
    event_type = told()
    return decimals & decimal_strings(json.loads(event_type["schema"]["schema"]), event_type["category"])
