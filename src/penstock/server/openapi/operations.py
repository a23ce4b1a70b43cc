"""OpenAPI schemas of the routes for operators."""

from typing import Final

from penstock.server.http.browser_app import MEDIA_TYPES
from penstock.server.openapi.operation import JSON, answer_of, list_of, object_of

TEXT: Final = "text/plain"
HTML: Final = "text/html"
_STRING: Final = {"type": "string"}
_STATUS: Final = object_of("status", status=_STRING)
STATUS: Final = answer_of("All is well.", {JSON: _STATUS})
OK: Final = answer_of("OK", {TEXT: _STRING})
INDEX: Final = answer_of(
    "What answers here, and where to go on: the path of each.",
    {JSON: object_of("name version docs", name=_STRING, version=_STRING, docs=_STRING, console=_STRING)},
)
VERSION: Final = answer_of("The version.", {JSON: object_of("name version", name=_STRING, version=_STRING)})
_MEASURED: Final = {"type": "object", "additionalProperties": {"type": "object"}}
METRICS: Final = answer_of(
    "In Prometheus' format, or in Dropwizard's JSON.",
    {
        TEXT: _STRING,
        JSON: object_of(
            "version gauges counters histograms meters timers",
            version=_STRING,
            **dict.fromkeys(("gauges", "counters", "histograms", "meters", "timers"), _MEASURED),
        ),
    },
)
_MAYBE: Final = {"type": ["integer", "null"], "minimum": 0}
_MAYBE_TIME: Final = {"type": ["string", "null"], "format": "date-time"}
_EVENT_TYPE: Final = object_of(
    "name owning_application category partition_count events bytes newest_at",
    name=_STRING,
    owning_application={"type": ["string", "null"]},
    category=_STRING,
    partition_count={"type": "integer", "minimum": 1},
    events={"type": "integer", "minimum": 0, "description": "Events that can be read."},
    bytes={**_MAYBE, "description": "About so many bytes they have, from the size of the newest; null: there is none."},
    newest_at={**_MAYBE_TIME, "description": "When the newest was received; null: there is none."},
)
STATISTICS: Final = answer_of(
    "All event types that the caller may view, as they were measured in the last seconds.",
    {JSON: object_of("measured_at items", measured_at=_STRING, items=list_of(_EVENT_TYPE))},
)
DESCRIPTION: Final = answer_of("This document.", {JSON: {"type": "object"}})
DOCS: Final = answer_of("A page for a browser.", {HTML: _STRING})
CONSOLE: Final = answer_of("The console.", {HTML: _STRING})
CONSOLE_FILE: Final = answer_of("The console, or a file of it.", dict.fromkeys(MEDIA_TYPES.values(), _STRING))
DOCS_FILE: Final = answer_of("The page, or a file of it.", dict.fromkeys(MEDIA_TYPES.values(), _STRING))
IN_PATH: Final = {"path": {"type": "string", "minLength": 1, "pattern": "^[ -~]+$"}}
