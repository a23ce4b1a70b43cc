"""Sets up the log of a served hub: lines for people on a terminal, JSON lines for programs, always on stderr."""

import logging
import os
import sys
import threading
from asyncio import CancelledError
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import msgspec
import structlog

from penstock.cli.streams import utf8

if TYPE_CHECKING:
    from penstock.server.telemetry import AccessLine, LogAccess

LogFormat = Literal["auto", "text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
AccessLog = Literal["all", "failed", "off"]

WRITE_INTERVAL: Final = 0.05
"""The interval at which access lines are written."""
LINES_WAITING_MAX: Final = 100_000
"""Maximum number of access lines that wait to be written; the oldest are dropped."""
STOP_TIMEOUT: Final = 1.0
"""A process that ends waits no longer for the reader of its log."""

_QUIET: Final = ("uvicorn.error", "psycopg.pool", "asyncio")
"""Loggers whose routine lines are of no use to operators of a hub."""
_CUT_OFF: Final = "ASGI callable returned without completing response."
"""Uvicorn's error for a stream that was cut off since its consumer reads nothing: the access log has the reason."""
_GRACE_IS_OVER: Final = "timeout graceful shutdown exceeded"
"""So it tells, of each and of all, that requests are given up: that was said when it was decided."""


def is_json(log_format: LogFormat) -> bool:
    """Tell whether *log_format* means JSON here: `auto` does unless stderr is a terminal."""
    return log_format == "json" or (log_format == "auto" and not sys.stderr.isatty())


def configure(level: LogLevel, *, as_json: bool) -> "logging.StreamHandler[Any]":
    """Send what Penstock and its libraries log to stderr, from *level* upwards; return the handler that writes it."""
    shared: list[Any] = [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso" if as_json else "%H:%M:%S", utc=as_json),
        structlog.stdlib.ExtraAdder(),
    ]
    last: list[Any] = [_short, _for_people()]
    if as_json:
        last = [structlog.processors.format_exc_info, _to_json]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )
    handler = logging.StreamHandler(utf8(sys.stderr) if as_json else sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(_is_news)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    if level != "debug":
        for name in _QUIET:
            logging.getLogger(name).setLevel(logging.WARNING)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared[:-1],
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    return handler


@contextmanager
def open_access_log(
    which: AccessLog, level: LogLevel, handler: "logging.StreamHandler[Any]", *, as_json: bool
) -> "Iterator[LogAccess | None]":
    """Lend a function that logs the lines of all requests, or of those that failed; None: no line is logged."""
    from penstock.server.telemetry import log_access

    if which == "off" or level in ("warning", "error"):
        yield None
    elif not as_json:
        yield log_access if which == "all" else lambda line: log_access(line) if has_failed(line) else None
    else:
        with AccessWriter(handler, failed_only=which == "failed", debug=level == "debug") as writer:
            yield writer.add


def has_failed(line: "AccessLine") -> bool:
    """Return whether the request was refused, failed, or was never answered."""
    return line.status >= 400 or not line.status or bool(line.refusal)


class AccessWriter:
    """Writes access lines as JSON where *handler* writes, many at once, from a thread of its own.

    The event loop formats nothing and waits for no reader of the log. Lines are up to `WRITE_INTERVAL` late; those of
    the last moment are lost if the process is killed, and lines that cannot be written are dropped.
    """

    def __init__(
        self, handler: "logging.StreamHandler[Any]", *, failed_only: bool = False, debug: bool = False
    ) -> None:
        self._handler = handler
        self._failed_only = failed_only
        self._debug = debug
        self._waiting: deque[AccessLine] = deque(maxlen=LINES_WAITING_MAX)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-access-log", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(STOP_TIMEOUT)

    def add(self, line: "AccessLine") -> None:
        """Have *line* written soon, unless its level is not logged or it is not among those wanted."""
        if (self._debug or not line.is_quiet) and (not self._failed_only or has_failed(line)):
            self._waiting.append(line)

    def _run(self) -> None:
        while not self._stopping.wait(WRITE_INTERVAL):
            self._write()
        self._write()

    def _write(self) -> None:
        lines = []
        while self._waiting:
            lines.append(_format(self._waiting.popleft()))
        if not lines:
            return
        self._handler.acquire()
        try:
            with suppress(OSError, ValueError):  # Its reader is gone, the disk is full, or the stream is closed.
                self._handler.stream.write("".join(lines))
                self._handler.flush()
        finally:
            self._handler.release()


def _format(line: "AccessLine") -> str:
    first = {
        "timestamp": datetime.fromtimestamp(line.ended_at, UTC).isoformat(timespec="microseconds")[:-6] + "Z",
        "level": "debug" if line.is_quiet else "info",
        "logger": "penstock.access",
        "event": line.event,
    }
    return msgspec.json.encode(first | line.members()).decode() + "\n"


def _is_news(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    told = f"{record.getMessage()} {error if isinstance(error, CancelledError) else ''}"
    return record.getMessage() != _CUT_OFF and _GRACE_IS_OVER not in told


def _for_people() -> Any:
    colors = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=12, pad_level=False, sort_keys=False)


def _short(_: Any, __: str, line: Any) -> Any:
    line.pop("logger", None)
    return line


def _to_json(_: Any, __: str, line: Any) -> str:
    first = {name: line.pop(name, None) for name in ("timestamp", "level", "logger", "event")}
    return msgspec.json.encode(first | line, enc_hook=str).decode()
