"""`penstock event-type from-model`: prints an event type's definition, made from the class that holds its events."""

import sys
from typing import Annotated, Any, Literal

import typer

from penstock.cli.streams import utf8


def from_model(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:CLASS",
            help="A msgspec Struct, a dataclass or a pydantic model, as in shop.events:OrderPlaced.",
        ),
    ],
    *,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The event type's name; order.placed for OrderPlaced.")
    ] = None,
    category: Annotated[
        Literal["undefined", "business", "data"] | None,
        typer.Option(help="undefined (the default). business: its events get metadata. data: the class is the record."),
    ] = None,
    owning_application: Annotated[str | None, typer.Option(metavar="NAME", help="Who publishes these events.")] = None,
    compatibility_mode: Annotated[
        Literal["compatible", "forward", "none"], typer.Option(help="How the schema may change later on.")
    ] = "compatible",
    partition_key_field: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="A member whose value is part of the key, such as customer.id. Repeatable."),
    ] = None,
    ordering_key_field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="A member by which events are in order, such as version; of data data.version. Repeatable.",
        ),
    ] = None,
    schema_only: Annotated[bool, typer.Option("--schema-only", help="Print the schema alone.")] = False,
    yaml: Annotated[bool, typer.Option("--yaml", help="Print YAML, in which the schema can be read.")] = False,
) -> None:
    """Print the definition of an event type whose events are instances of a class of yours; needs no hub.

    The class is imported from the current directory, or from where Python finds its module. Of DataChange[Order],
    under a name of its own, the record is taken, and the category is data.
    """
    from penstock.cli.event_type.model import defined, imported

    traits: dict[str, Any] = {
        "name": name,
        "category": category,
        "owning_application": owning_application,
        "partition_strategy": "hash" if partition_key_field else None,
        "partition_key_fields": partition_key_field,
        "ordering_key_fields": ordering_key_field,
        "compatibility_mode": compatibility_mode,
    }
    given = {trait: value for trait, value in traits.items() if value is not None}
    definition, schema = defined(model, imported(model), given)
    if yaml:
        _print_yaml(schema if schema_only else definition | {"schema": schema})
    else:
        from penstock.cli.output import print_json

        print_json(schema if schema_only else definition)


def _print_yaml(value: Any) -> None:
    from msgspec import json
    from yaml import safe_dump

    apart = json.decode(json.encode(value))  # What stands twice shall be written twice, as a person would.
    safe_dump(apart, utf8(sys.stdout), sort_keys=False, allow_unicode=True, width=100)
