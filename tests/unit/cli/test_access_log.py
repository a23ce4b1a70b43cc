"""Access lines of `penstock serve`: which are logged, and that they are written whole."""

import io
import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock.cli import logs
from penstock.cli.logs import AccessLog, AccessWriter, LogLevel, open_access_log
from penstock.errors import EventTypeNotFound
from penstock.server.telemetry import AccessLine
from tests.served import until


def a_line(path: str = "/feeds/a", status: int = 200) -> AccessLine:
    line = AccessLine({"method": "GET", "path": path}, None, "flow")  # type: ignore[arg-type]
    line.status = status
    line.end()
    return line


def logged(write: Callable[[Any], None], which: AccessLog, level: LogLevel) -> list[dict[str, Any]]:
    handler = logging.StreamHandler(io.StringIO())
    with open_access_log(which, level, handler, as_json=True) as log_access:
        write(log_access)
    return [json.loads(line) for line in handler.stream.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("which", "level", "paths"),
    [
        ("all", "info", ["/feeds/a", "/feeds/gone", "/feeds/left"]),
        ("all", "debug", ["/feeds/a", "/feeds/gone", "/feeds/left", "/health"]),
        ("failed", "info", ["/feeds/gone", "/feeds/left"]),
    ],
)
def test_access_log_has_the_lines_of_its_level_and_choice(which: AccessLog, level: LogLevel, paths: list[str]) -> None:
    def write(log_access: Any) -> None:
        for path, status in (("/feeds/a", 200), ("/feeds/gone", 404), ("/feeds/left", 0), ("/health", 200)):
            log_access(a_line(path, status))

    assert [line["path"] for line in logged(write, which, level)] == paths


@pytest.mark.parametrize(("which", "level"), [("off", "info"), ("all", "warning"), ("all", "error")])
def test_access_log_is_off_by_choice_and_above_level_info(which: AccessLog, level: LogLevel) -> None:
    handler = logging.StreamHandler(io.StringIO())
    with open_access_log(which, level, handler, as_json=True) as log_access:
        assert log_access is None


def test_access_line_has_the_user_agent_up_to_200_characters() -> None:
    headers = [(b"host", b"hub"), (b"user-agent", b"a" * 201)]
    line = AccessLine({"method": "GET", "path": "/", "headers": headers}, None, "flow")  # type: ignore[arg-type]

    assert line.members()["agent"] == "a" * 200


@pytest.mark.parametrize("secret", ["pst_0123456789abcdef", "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln"])
def test_access_line_hides_tokens_that_were_sent_in_a_wrong_place(secret: str) -> None:
    scope = {"method": "GET", "path": f"/event-types/{secret}", "headers": [(b"user-agent", b"me " + secret.encode())]}
    line = AccessLine(scope, None, secret)  # type: ignore[arg-type]
    line.feed = line.consumer = secret
    line.refuse(EventTypeNotFound(event_type=secret))

    found = line.members()

    assert secret not in str(found)
    assert (found["path"], found["agent"], found["feed"]) == ("/event-types/***", "me ***", "***")


def test_access_lines_and_other_lines_of_the_log_are_whole() -> None:
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(logging.Formatter('{"event": "%(message)s"}'))
    log = logging.getLogger("tests.access_log")
    log.propagate, log.level = False, logging.INFO
    log.addHandler(handler)
    with AccessWriter(handler) as writer:

        def add_lines() -> None:
            for _ in range(500):
                writer.add(a_line())

        threads = [threading.Thread(target=add_lines) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(500):
            log.info("x" * 100)
        for thread in threads:
            thread.join()

    lines = [json.loads(line) for line in handler.stream.getvalue().splitlines()]
    assert sum("path" in line for line in lines) == 2_000
    assert sum("path" not in line for line in lines) == 500


def test_lines_are_written_again_after_the_stream_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = logging.StreamHandler(io.StringIO())
    write, failures = handler.stream.write, [OSError("no space left")]

    def write_or_fail(text: str) -> int:
        if failures:
            raise failures.pop()
        return write(text)

    monkeypatch.setattr(handler.stream, "write", write_or_fail)
    with AccessWriter(handler) as writer:
        writer.add(a_line("/lost"))
        until(lambda: not failures)
        writer.add(a_line("/kept"))

    assert [json.loads(line)["path"] for line in handler.stream.getvalue().splitlines()] == ["/kept"]


def test_oldest_access_lines_are_dropped_while_nobody_reads_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LINES_WAITING_MAX", 3)
    handler = logging.StreamHandler(io.StringIO())
    writer = AccessWriter(handler)
    for number in range(5):
        writer.add(a_line(f"/{number}"))
    with writer:
        pass

    assert [json.loads(line)["path"] for line in handler.stream.getvalue().splitlines()] == ["/2", "/3", "/4"]
