"""The typed columns of a query: asked of the hub's registry once, when the query is made."""

from typing import Protocol

from penstock.errors import BadParameter
from penstock.spark.columns import Registered
from penstock.spark.connection import RegisteredSchema
from penstock.spark.json_columns import event_columns, merged
from penstock.spark.options import SourceOptions


class Registry(Protocol):
    """What knows schemas: a hub."""

    def registered(self, event_type: str, version: str | None) -> RegisteredSchema:
        """See `Hub.registered`."""


def typed_events(registry: Registry, options: SourceOptions) -> Registered:
    """Return the columns of the events that a query reads, by the versions that its options name.

    Raises:
        BadParameter: a schema names no members.
        EventTypeNotFound, SchemaVersionNotFound: there is none.
    """
    found = {name: registry.registered(name, options.schema_versions.get(name)) for name in options.event_types}
    columns = {name: event_columns(each.schema, each.category) for name, each in found.items()}
    for name, each in columns.items():
        if not each.fields:
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
    return Registered(merged(columns.values()), {name: each.version for name, each in found.items()})
