"""The page of all routes as it is sent: under which headers, with which files. A browser runs it in tests/browser."""

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from penstock.server import HubApp
from penstock.server.http.browser_app import HEADERS
from tests.served import PROBLEM


@pytest.fixture
def docs(tmp_path: Path) -> TestClient:
    """A client of a hub without a console, behind a proxy."""
    app = HubApp(f"sqlite:///{tmp_path}/hub.db", console=False, trusted_proxies=["10.0.0.7"])
    return TestClient(app, base_url="http://localhost", client=("10.0.0.7", 1))


@pytest.mark.parametrize("path", ["/docs", "/docs/"])
def test_page_of_all_routes_has_no_inline_script_and_names_its_files_for_good(docs: TestClient, path: str) -> None:
    page = docs.get(path, headers={"X-Forwarded-Prefix": "/data", "Sec-Fetch-Site": "cross-site"})

    assert page.status_code == 200
    assert {name: page.headers[name] for name in HEADERS} == HEADERS
    assert '<base href="/data/docs/">' in page.text
    assert not re.search(r"<style|style=|<script(?![^>]*src=)|\son\w+=", page.text), "the policy refuses these"
    named = re.findall(r'"(assets/[^"]+)"', page.text)
    assert len(named) == 5
    for each in named:
        file = docs.get(f"/docs/{each}")
        assert file.status_code == 200, each
        assert file.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert {name: file.headers[name] for name in HEADERS} == HEADERS


@pytest.mark.parametrize("path", ["nothing", "assets", "assets/nothing.js", "vendor/swagger-ui.js", "pages.py"])
def test_missing_file_of_the_page_of_all_routes_is_a_problem(docs: TestClient, path: str) -> None:
    answer = docs.get(f"/docs/{path}")
    assert (answer.status_code, answer.headers["content-type"]) == (404, PROBLEM)
