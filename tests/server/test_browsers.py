"""Answers let no page of another origin read them, and leave nothing in a browser."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from penstock.server import HubApp


@pytest.mark.parametrize("origin", ["http://hub", "https://evil.example", "null"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/"), ("GET", "/docs"), ("GET", "/event-types"), ("GET", "/nowhere"), ("OPTIONS", "/event-types")],
)
def test_answer_has_no_cors_headers_and_no_cookies(tmp_path: Path, method: str, path: str, origin: str) -> None:
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    with TestClient(HubApp(f"sqlite:///{tmp_path}/hub.db"), base_url="http://hub") as client:
        answer = client.request(method, path, headers=headers)

    unwanted = [name for name in answer.headers if name == "set-cookie" or name.startswith("access-control-")]
    assert not unwanted
    if origin != "http://hub" and path not in ("/", "/docs"):
        assert answer.status_code == 403
