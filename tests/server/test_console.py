"""The console's files: who gets them, under which headers, below which paths."""

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from penstock.server import HubApp
from penstock.server.authentication.proxy_header import ProxyHeaderMethod
from penstock.server.console.pages import STATIC, VENDOR, load_console
from penstock.server.http.browser_app import MEDIA_TYPES
from tests.served import problem_of

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; font-src 'self'; "
    "img-src 'self' data:; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
)


def open_console(tmp_path: Path, **options: Any) -> TestClient:
    app = HubApp(f"sqlite:///{tmp_path}/hub.db", **{"console": True, **options})
    return TestClient(app, base_url="http://localhost", client=("10.0.0.7", 1))


@pytest.mark.parametrize("path", ["/console", "/console/", "/console/groups/mailer%2Feu", "/console/assetsfree"])
def test_page_is_sent_for_every_path_of_the_console(tmp_path: Path, path: str) -> None:
    answer = open_console(tmp_path).get(path, headers={"Sec-Fetch-Site": "cross-site"})

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert '<base href="/console/">' in answer.text
    assert not re.search(r"<style|style=|<script(?![^>]*src=)|\son\w+=", answer.text), "the policy refuses these"


def test_page_names_where_a_trusted_proxy_has_the_hub(tmp_path: Path) -> None:
    behind = open_console(tmp_path, trusted_proxies=["10.0.0.7"])
    page = behind.get("/console", headers={"X-Forwarded-Prefix": "/data"}).text
    stranger = open_console(tmp_path).get("/console", headers={"X-Forwarded-Prefix": "/data"}).text

    assert '<base href="/data/console/">' in page
    assert '<base href="/console/">' in stranger


def test_page_of_a_mounted_hub_names_the_path_of_the_mount(tmp_path: Path) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    app = Starlette(routes=[Mount("/events", HubApp(f"sqlite:///{tmp_path}/hub.db", console=True))])
    http = TestClient(app)
    page = http.get("/events/console/groups").text

    assert '<base href="/events/console/">' in page
    [script] = re.findall(r'<script type="module" src="([^"]+)"', page)
    assert http.get(f"/events/console/{script}").headers["content-type"] == "text/javascript; charset=utf-8"


def test_files_named_by_the_page_are_kept_by_browsers_for_good(tmp_path: Path) -> None:
    http = open_console(tmp_path)
    named = re.findall(r'"(assets/[^"]+)"', http.get("/console").text)

    assert named
    for each in named:
        answer = http.get(f"/console/{each}")
        assert answer.status_code == 200, each
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize("path", ["assets/vendor/preact.js", "assets/of-another-version/vendor/preact.js"])
def test_file_without_the_digest_in_its_path_is_asked_for_again(tmp_path: Path, path: str) -> None:
    http = open_console(tmp_path)
    plain = http.get(f"/console/{path}", headers={"Accept-Encoding": "identity"})
    zipped = http.get(f"/console/{path}", headers={"Accept-Encoding": "gzip"})
    tag = zipped.headers["etag"]
    known = http.get(f"/console/{path}", headers={"Accept-Encoding": "gzip", "If-None-Match": f'"x", W/{tag}'})

    assert plain.headers["cache-control"] == zipped.headers["cache-control"] == "no-cache"
    assert plain.content == zipped.content == (VENDOR / "preact.js").read_bytes()
    assert "content-encoding" not in plain.headers
    assert zipped.headers["content-encoding"] == "gzip"
    assert int(zipped.headers["content-length"]) < len(gzip.compress(plain.content, 0))
    assert plain.headers["etag"] not in (tag, "")
    assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", tag)
    assert known.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize("path", ["assets/nothing.js", "assets", "assets/index.html", "assets/%2e%2e/files.py"])
def test_missing_file_of_the_console_is_a_problem(tmp_path: Path, path: str) -> None:
    problem_of(open_console(tmp_path).get(f"/console/{path}"), 404, "console-file-not-found")


@pytest.mark.parametrize("path", ["../files.py", "x/../files.py", "vendor/../app.js", "/etc/passwd", "", "."])
def test_nothing_but_the_files_read_at_the_start_is_found(path: str) -> None:
    files = load_console()

    assert files.find(path) is None
    assert files.find(f"{files.digest}/{path}") is None


def test_foreign_page_may_link_to_the_console_and_not_use_its_files(tmp_path: Path) -> None:
    http = open_console(tmp_path)

    assert http.get("/console", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200
    refused = http.get("/console/assets/app.js", headers={"Sec-Fetch-Site": "cross-site"})
    problem_of(refused, 403, "cross-site")


@pytest.mark.parametrize(
    ("options", "is_on"),
    [
        ({}, False),
        ({"is_local": True}, True),
        ({"authentication": [ProxyHeaderMethod("X-User", "user", ["10.0.0.7"])]}, True),
        ({"is_local": True, "console": False}, False),
    ],
)
def test_console_is_on_by_default_where_callers_are_known_or_local(
    tmp_path: Path, options: dict[str, Any], is_on: bool
) -> None:
    http = open_console(tmp_path, **{"console": None, **options})
    answer = http.get("/console")

    assert http.get("/").json().get("console") == ("/console" if is_on else None)
    if is_on:
        assert answer.status_code == 200
    else:
        assert "--console" in problem_of(answer, 404, "console-off")["hint"]


def test_console_without_its_libraries_says_how_to_load_them(tmp_path: Path) -> None:
    app = HubApp(f"sqlite:///{tmp_path}/hub.db", console=True)
    app._app.state.console = load_console(STATIC, tmp_path / "missing")
    answer = TestClient(app).get("/console")

    assert answer.status_code == 503
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "make setup" in answer.text


def test_every_file_of_the_console_has_a_media_type() -> None:
    unknown = [path for path in STATIC.rglob("*") if path.is_file() and path.suffix not in MEDIA_TYPES]

    assert not unknown


def test_scripts_of_the_console_import_files_that_exist() -> None:
    for path in STATIC.rglob("*.js"):
        for name in re.findall(r"""(?:from\s+|import\s*\(?\s*)["']([^"']+)["']""", path.read_text(encoding="utf-8")):
            assert name.startswith("."), f"{path.name} imports {name}: browsers know no packages"
            found = (path.parent / name).resolve()
            vendored = (
                VENDOR / found.relative_to(STATIC / "vendor") if found.is_relative_to(STATIC / "vendor") else found
            )
            assert vendored.is_file(), f"{path.name} imports {name}"
