"""Helpers of the tests of Nakadi's protocol: the choice of one database, blocks, features, and whole problems."""

from typing import Any, Final

import httpx2
import pytest

from tests.nakadi import Nakadi

ON_SQLITE: Final = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
"""For rules of the protocol in which the database has no part."""
JSON: Final = {"Content-Type": "application/json"}
JANE: Final = {"data_type": "user", "value": "jane"}


def switch(nakadi: Nakadi, feature: str, *, on: bool = True) -> None:
    """Switch a feature on or off; the fixture `restored` switches it off after the test."""
    answer = nakadi.http.post("/settings/features", json={"feature": feature, "enabled": on})
    assert (answer.status_code, answer.content) == (204, b""), answer.text


def block(nakadi: Nakadi, name: str, kind: str = "CONSUMER_ET") -> None:
    """Block an event type or an application; the fixture `restored` lifts it after the test."""
    assert nakadi.http.put(f"/settings/blacklist/{kind}/{name}").status_code == 204


def unblock(nakadi: Nakadi, name: str, kind: str = "CONSUMER_ET") -> None:
    """Lift a block."""
    assert nakadi.http.delete(f"/settings/blacklist/{kind}/{name}").status_code == 204


def pick(shown: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the members of *shown* whose names are in *wanted*."""
    return {name: shown[name] for name in wanted}


def refuses(answer: httpx2.Response, status: int, detail: str, type: str | None = None) -> None:
    """See that a strict hub refuses as Nakadi does: tests of its clients compare the whole problem."""
    assert answer.headers["content-type"].startswith("application/problem+json")
    titles = {
        400: "Bad Request", 403: "Forbidden", 404: "Not Found", 406: "Not Acceptable", 409: "Conflict",
        412: "Precondition Failed", 422: "Unprocessable Entity",
    }  # fmt: skip
    problem = {"title": titles[status], "status": status, "detail": detail} | ({} if type is None else {"type": type})
    assert (answer.status_code, answer.json()) == (status, problem)


def short(value: object) -> str:
    """Return the text of a value as the id of a case."""
    text = ascii(value)
    return text if len(text) < 90 else f"{text[:40]}...{text[-40:]}"
