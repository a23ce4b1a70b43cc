"""Definitions that keep every guideline."""

import json
from typing import Any

TEXT = {"type": "string"}
COUNT = {"type": "integer"}


def described(schema: dict[str, Any]) -> dict[str, str]:
    """The member `schema` of a definition."""
    return {"type": "json_schema", "schema": json.dumps(schema)}


def schema(*required: str, **properties: Any) -> dict[str, str]:
    return described({"type": "object", "properties": properties, "required": list(required)})


BUSINESS: dict[str, Any] = {
    "name": "sales.order-placed",
    "owning_application": "shop",
    "category": "business",
    "compatibility_mode": "compatible",
    "ordering_key_fields": ["step"],
    "schema": schema("business_process_id", "step", business_process_id=TEXT, step=COUNT, total=TEXT),
}
DATA: dict[str, Any] = {
    "name": "sales.orders",
    "owning_application": "shop",
    "category": "data",
    "partition_strategy": "hash",
    "partition_key_fields": ["order_id"],
    "ordering_key_fields": ["data.version"],
    "default_statistic": {"messages_per_minute": 10, "message_size": 100, "read_parallelism": 4,
        "write_parallelism": 2},
    "schema": schema("order_id", "version", order_id=TEXT, version=COUNT, total=TEXT),
}  # fmt: skip
UNDEFINED: dict[str, Any] = {
    "name": "clicks",
    "owning_application": "shop",
    "category": "undefined",
    "annotations": {"penstock.waiver/category": "browsers send them as they are"},
    "ordering_key_fields": ["n"],
    "partition_count": 8,
    "schema": schema("event_id", "n", event_id=TEXT, n=COUNT),
}
