"""Chunks of uploads over HTTP: an invalid chunk is refused, and nothing of it is kept."""

from uuid import uuid4

import httpx2
import pytest

from penstock.testing.factories import an_event_type

LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def chunk(http: httpx2.Client) -> str:
    """Where the first chunk of an upload goes."""
    name = f"staged.{uuid4().hex}"
    assert http.post("/event-types", json=an_event_type(name)).status_code == 201
    batch = {"producer_group": "g", "batch": 0, "query": "q"}
    upload = http.post(f"/event-types/{name}/uploads", json=batch).json()["upload"]
    return f"/event-types/{name}/uploads/{upload}/chunks/0"


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (b'{"data":{}}\n{"data":{"a":1,"a":2}}', LINES, 422, "invalid-event"),
        (b'{"data":{}}\n{"data":{"a":123456789012345678901234567890}}', LINES, 422, "invalid-event"),
        (b'{"data":{}}\n{"data":', LINES, 422, "invalid-event"),
        (b"", LINES, 400, "malformed-batch"),
        (b'{"data":{}}\n' * 5_001, LINES, 413, "too-many-events"),
        (b'[{"a":1}]', {"Content-Type": "application/json"}, 415, "unsupported-media-type"),
    ],
    ids=["twice", "too large a number", "broken", "empty", "too many", "no lines"],
)
def test_invalid_chunk_is_refused_and_not_kept(
    http: httpx2.Client, chunk: str, *, body: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    refused = http.put(chunk, content=body, headers=headers)

    assert (refused.status_code, refused.json()["type"]) == (status, f"urn:penstock:problem:{code}")
    kept = http.put(chunk, content=b'{"data":{}}', headers=LINES)
    assert (kept.status_code, kept.json()["events"]) == (200, 1), "the refused chunk has left nothing"
