"""The routes below /registry: what the definition of an event type can choose from."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.server.answers import json_response

ENRICHMENT: Final = ("metadata_enrichment",)
PARTITION: Final = ("hash", "user_defined", "random")


async def list_enrichment_strategies(_: Request) -> Response:
    """GET /registry/enrichment-strategies: list the ways in which events can be completed."""
    return json_response(ENRICHMENT)


async def list_partition_strategies(_: Request) -> Response:
    """GET /registry/partition-strategies: list the ways in which an event's partition can be chosen."""
    return json_response(PARTITION)
