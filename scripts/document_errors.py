"""Writes docs/errors.md from the errors themselves: `.venv/bin/python scripts/document_errors.py`.

Codes, statuses, fields and hints are read from the code. A class or code without a hint needs an entry in `ADVICE`.
"""

import ast
import inspect
import re
from itertools import pairwise
from pathlib import Path

from penstock import errors
from penstock.errors import PenstockError
from penstock.server.http.problems import status_of

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"

HEAD = """\
# Errors

<!-- Written by scripts/document_errors.py from src/penstock/errors: change it there, and run the script again. -->

A hub answers with a problem of RFC 9457, `application/problem+json`. Its `type` is `urn:penstock:problem:` + code.

```json
{
  "type": "urn:penstock:problem:event-type-not-found",
  "title": "Not Found",
  "status": 404,
  "detail": "there is no event type 'order.shipped'",
  "hint": "Create it with `penstock event-type create NAME` or POST /event-types.",
  "event_type": "order.shipped"
}
```

In Python it is an exception of the class below. Its fields are typed attributes, such as `error.event_type`, beside
`error.code`, `error.hint`, and `error.retryable`, which says whether the same request can succeed later, unchanged.
`error.fields` has all fields by name. An attribute whose type allows None is None if the field is missing. Some classes
have several codes, for causes that callers handle alike: catch the class, and compare `error.code` to tell them apart.

The client raises the error that the hub raised. A hub served with `--nakadi-strict` sends no codes: the client then
raises the class of the status, such as `NotFound`. All classes are in `penstock.errors`.

Codes and fields are part of the interface and stay. `title`, `detail` and `hint` are for people and may change.

Answers of type `about:blank` are no errors of this list: there is no such route (404), the route has no such method
(405), or the hub has a defect (500), which it logs.

## The tree

```text
"""

ADVICE = {
    "bad-parameter": "Correct the parameter; `allowed` says how.",
    "invalid-event": "Correct the event. Nothing of the request was stored, except chunks before it.",
    "invalid-event-type": "Correct the field.",
    "invalid-setting": "Correct the field.",
    "invalid-subscription": "Correct the fields in `violations`.",
    "malformed-batch": "Correct the body, or the named event. Nothing of the request was stored.",
    "malformed-event-type": "Correct the field: its type, or its value, which is one of few.",
    "malformed-subscription": "Correct the fields in `violations`: their types, or their values.",
    "malformed-event": "Correct the event. Nothing of the request was stored, except chunks before it.",
    "partition-refused": "Give the event its key field, or the line a key; with `user_defined`, name an existing "
    "partition.",
    "requirement-missing": "Install it; `install` says how.",
    "unsupported-media-type": "Send one of the media types in `allowed`.",
}
"""Advice for errors without a hint: their own text says what to correct."""
LOCAL = {
    "bad-outcome",
    "bad-results",
    "checkpoint-moved",
    "commit-unknown",
    "transaction-ended",
    "checkpoint-not-found",
    "fold-failed",
    "file-changed",
    "invalid-line",
    "not-replayable",
    "parked-stream-not-found",
    "projection-not-found",
    "projection-behind",
    "projection-gone",
    "already-started",
    "kind-unexpected",
    "processor-unhealthy",
    "source-silent",
    "stream-exhausted",
    "already-published",
    "connection-lost",
    "cursor-moved",
    "eid-missing",
    "encoding-unsuitable",
    "event-unfit",
    "events-lost",
    "feed-created-again",
    "landed-page-missing",
    "malformed-answer",
    "malformed-event",
    "order-unknown",
    "outside-transaction",
    "publish-cancelled",
    "replay-differs",
    "requirement-missing",
    "retries-exhausted",
    "server-error",
    "server-state-regressed",
    "table-gone",
    "table-unsuitable",
    "snapshot-outdated",
    "unreachable",
    "wrong-address",
    "wrong-category",
}
"""Codes that are raised in the process of the caller only; no hub sends them."""


def render() -> str:
    """Return the page."""
    tree = "\n".join(line.removeprefix("    ") for line in (errors.__doc__ or "").splitlines() if _is_drawn(line))
    statuses = sorted({_status(*each) for each in _raised()})
    rows = [f"| {status} | {_links(status)} |\n" for status in statuses]
    sections = "\n".join(_section(*each) for each in _raised())
    return f"{HEAD}{tree}\n```\n\n## By status\n\n| status | |\n|---|---|\n{''.join(rows)}\n## One by one\n\n{sections}"


def _links(status: str) -> str:
    return ", ".join(f"[`{code}`](#{code})" for kind, code in _raised() if _status(kind, code) == status)


def _is_drawn(line: str) -> bool:
    return line.strip() == "PenstockError" or "├──" in line or "└──" in line


def _raised() -> list[tuple[type[PenstockError], str]]:
    """Return the classes that are raised themselves, with each of their codes, sorted by code."""
    raised = [
        (kind, code)
        for kind in errors.ALL
        if kind is not PenstockError
        for code in ([kind.code] if "message" in vars(kind) else []) + list(kind.cases)
    ]
    return sorted(raised, key=lambda each: each[1])


def _section(kind: type[PenstockError], code: str) -> str:
    status = _status(kind, code)
    rows = [
        f"- Class: `{kind.__name__}`",
        f"- Status: {status}{', with `Retry-After`' if status == '503' else ''}",
        f"- Fields: {', '.join(_described(name, *each) for name, each in _fields(kind, code).items())}",
        f"- What to do: {_advice(kind, code)}",
    ]
    says = " ".join((kind.__doc__ or "").split())
    if code in kind.cases:
        says += f" In this case: {_example(kind.cases[code].message)}."
    return f"### `{code}`\n\n{says}\n\n" + "".join(f"{row}\n" for row in rows if not row.endswith(": "))


def _example(message: str) -> str:
    """Return a message with its fields as words in code."""
    return re.sub(r"\{(?:at_)?(\w+)(![rs])?\}", r"`\1`", message)


def _fields(kind: type[PenstockError], code: str) -> dict[str, tuple[str, str | None]]:
    """Return the fields that *kind* and its ancestors declare: of each its type and its docstring."""
    found: dict[str, tuple[str, str | None]] = {}
    for each in reversed(kind.__mro__[: kind.__mro__.index(PenstockError)]):
        [declared] = ast.parse(inspect.getsource(each)).body
        assert isinstance(declared, ast.ClassDef)
        for member, after in pairwise([*declared.body, ast.Pass()]):
            if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name) and member.value is None:
                says = None
                if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    says = " ".join(str(after.value.value).split())
                found[member.target.id] = (ast.unparse(member.annotation), says)
    if issubclass(kind, errors.Unavailable) and code not in LOCAL:
        found["retry_after"] = ("float", None)
    return found


def _described(name: str, kind: str, says: str | None) -> str:
    if says is None:
        return f"`{name}: {kind}`"
    first = says if says.startswith("None") else says[0].lower() + says[1:]
    return f"`{name}: {kind}` ({first.rstrip('.')})"


def _status(kind: type[PenstockError], code: str) -> str:
    if code in LOCAL:
        return "none, raised in Python only"
    return str(status_of(kind.of(code)))


def _advice(kind: type[PenstockError], code: str) -> str:
    hint = kind.cases[code].hint if code in kind.cases else kind.hint
    assert hint or code in ADVICE, f"{kind.__name__} with code {code!r} needs a hint"
    return hint or ADVICE[code]


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
