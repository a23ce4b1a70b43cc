"""The OpenAPI description is true: requests generated from it get the answers that it describes."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS

from penstock.server.log.event_stream import stream_events
from penstock.server.openapi.operation import HttpOperation
from penstock.server.producers import publish_to_partition
from penstock.server.routes import ROUTES
from penstock.testing.live_hub import LiveHub
from penstock.wire.log.nakadi import HEADER
from penstock.wire.producers import DEADLINE, DEADLINE_MS_MAX
from tests.exhaustive import examples
from tests.served import as_new, client_of, create

FEED = "described.feed"
CHECKED = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
EXAMPLES = examples(2, 100)
REQUESTS = [
    pytest.param(
        operation,
        mode,
        id=f"{operation.method} {operation.path} {mode.value}",
        marks=[] if mode is GenerationMode.POSITIVE or operation.body else pytest.mark.exhaustive,
    )
    for operation in ROUTES
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or operation.body or "{" in operation.path
]
"""A request without path parameters and body cannot be invalid.

`make test` leaves out those whose path alone is invalid: all routes read paths alike.
"""


@schemathesis.serializer("application/x-ndjson")
def as_lines(_: Any, value: Any) -> bytes:
    """Write an array of lines line by line, and anything else as it is."""
    if not isinstance(value, list):
        return json.dumps(value).encode()
    return b"".join(json.dumps(line).encode() + b"\n" for line in value)


@pytest.fixture(scope="module")
def schema(sqlite_hub: LiveHub) -> Any:
    with client_of(sqlite_hub) as http:
        create(http, 4, FEED, partition_strategy="user_defined").publish_ids([1], partition=0)
    return schemathesis.openapi.from_url(f"{sqlite_hub.url}/openapi.json")


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


@pytest.mark.parametrize(("operation", "mode"), REQUESTS)
def test_generated_requests_get_the_answers_of_the_description(
    schema: Any, session: requests.Session, operation: HttpOperation, mode: GenerationMode
) -> None:
    cases = schema[operation.path][operation.method].as_strategy(generation_mode=mode)

    @settings(max_examples=EXAMPLES, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(case=cases)
    def request(case: schemathesis.Case) -> None:
        if "event_type" in case.path_parameters and operation.method != "DELETE" and mode is GenerationMode.POSITIVE:
            case.path_parameters["event_type"] = FEED
        if "wait" in case.query:
            case.query["wait"] = 0
        if operation.handler is stream_events:
            end_soon(case)
        if operation.handler is publish_to_partition:
            give_time(case)
        case.call_and_validate(checks=[CHECKS.get_one(name) for name in CHECKED], session=session)

    try:
        request()
    finally:
        if operation.path.startswith("/settings"):
            restore(schema)


def end_soon(case: schemathesis.Case) -> None:
    """Have a stream end with the first event of the feed."""
    numbers = [name for name in case.query if isinstance(case.query[name], int)]
    case.query |= dict.fromkeys(["batch_limit", "stream_limit", *numbers], 1)
    if case.headers is None or HEADER not in case.headers:
        case.headers = (case.headers or {}) | {HEADER: '[{"partition":"0","offset":"BEGIN"}]'}


def give_time(case: schemathesis.Case) -> None:
    """Have a batch wait for its turn as long as it takes: it would be answered 503 after its deadline."""
    if str(case.headers.get(DEADLINE, "")).isdigit():
        case.headers[DEADLINE] = str(DEADLINE_MS_MAX)
    by = case.body.get("producer") if isinstance(case.body, dict) else None
    if isinstance(by, dict) and isinstance(by.get("deadline_ms"), int):
        by["deadline_ms"] = DEADLINE_MS_MAX


def restore(schema: Any) -> None:
    """Undo what a request may have set: other tests ask the same hub."""
    with httpx2.Client(base_url=schema.get_base_url(), verify=False) as http:
        as_new(http)
