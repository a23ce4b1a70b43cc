"""Sets up the log of a served hub: lines for people on a terminal, JSON lines for programs, always on stderr."""

import logging
import os
import sys
from asyncio import CancelledError
from typing import Any, Final, Literal

import msgspec
import structlog

from penstock.cli.streams import utf8

LogFormat = Literal["auto", "text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

_QUIET: Final = ("uvicorn.error", "psycopg.pool", "asyncio")
"""Loggers whose everyday lines are of no use to whoever runs a hub."""
_CUT_OFF: Final = "ASGI callable returned without completing response."
"""What uvicorn calls an error where a stream is cut off whose consumer takes nothing: the access log tells why."""
_GRACE_IS_OVER: Final = "timeout graceful shutdown exceeded"
"""So it tells, of each and of all, that requests are given up: that was said when it was decided."""


def is_json(log_format: LogFormat) -> bool:
    """Tell whether *log_format* means JSON here: `auto` does unless stderr is a terminal."""
    return log_format == "json" or (log_format == "auto" and not sys.stderr.isatty())


def configure(level: LogLevel, *, as_json: bool) -> None:
    """Send what Penstock and its libraries log to stderr, from *level* upwards."""
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
