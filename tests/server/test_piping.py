"""A feed that is read with all headers and piped into another feed loses nothing."""

import json
import subprocess
from typing import Any

import httpx2
import pytest

from tests.served import Page, Served, create, page_of


def meaning(page: Page) -> list[dict[str, Any]]:
    """The events of a page, less what the hub that keeps them has to write itself."""
    found = []
    for line in page.lines:
        if "data" in line:
            metadata = line["data"].get("metadata")
            if metadata:
                for member in ("received_at", "partition", "event_type"):
                    del metadata[member]
            found.append({"headers": line["headers"], "data": line["data"]})
    return found


def event(i: int, category: str) -> dict[str, Any]:
    data: dict[str, Any] = {"id": i, "text": "Æ🦑\n" * (i % 3), "number": 1.50}
    if category == "undefined":
        return data
    metadata = {"eid": f"6f1b2f60-0000-4000-8000-{i:012d}", "occurred_at": "2026-01-01T00:00:00Z", "flow_id": "f"}
    change = {"data_type": f"kind.{i % 3}", "data_op": "U", "data": data}
    return {"metadata": metadata, **(data if category == "business" else change)}


@pytest.mark.parametrize("category", ["undefined", "business", "data"])
@pytest.mark.parametrize("strategy", ["hash", "user_defined", "random"])
def test_feed_piped_with_curl_has_the_same_events_and_headers(
    either_http: httpx2.Client, category: str, strategy: str
) -> None:
    fields = {"partition_strategy": strategy, "partition_key_fields": ["id"] if strategy == "hash" else []}
    source, target = (create(either_http, 4, category=category, **fields) for _ in range(2))
    source.publish_lines(
        {"data": event(i, category), "key": f"kéy {i % 7}", "partition": i % 4}
        | ({"headers": {"mine": str(i), "ce_type": "Own.Type"}} if i % 2 else {})
        for i in range(60)
    )
    base = str(source.http.base_url).rstrip("/")
    query = "&".join(f"cursor{p}=_first" for p in range(4))
    pipe = (
        f"curl -sfN '{base}{source.path}?n=4&{query}&headers=_all&pagesizehint=1000' | "
        f"curl -sf --data-binary @- '{base}{target.path}'"
    )
    answer = json.loads(subprocess.run(["sh", "-c", pipe], check=True, capture_output=True).stdout)
    assert answer["count"] == 60
    there, here = (everything(feed) for feed in (source, target))
    if strategy == "random":
        there, here = (Page(sorted(page.lines, key=json.dumps)) for page in (there, here))
        assert sorted(map(json.dumps, meaning(there))) == sorted(map(json.dumps, meaning(here)))
    else:
        assert meaning(there) == meaning(here)
        assert [line["partition"] for line in there.lines] == [line["partition"] for line in here.lines]


def everything(feed: Served) -> Page:
    return page_of(feed.get(n=4, headers="_all", pagesizehint=1_000, **{f"cursor{p}": "_first" for p in range(4)}))
