"""Writes docs/reference/errors from the errors themselves: `.venv/bin/python scripts/document_errors.py`.

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

FOLDER = Path(__file__).parents[1] / "docs" / "reference" / "errors"
WRITTEN = "<!-- Written by scripts/document_errors.py from src/penstock/errors. -->"
HEAD = f"""\
# Errors

{WRITTEN}

Every error has a code that stays. A hub sends it in a problem of RFC 9457, `application/problem+json`; its `type` is
`urn:penstock:problem:` and the code:

```json
{{
  "type": "urn:penstock:problem:event-type-not-found",
  "title": "Not Found",
  "status": 404,
  "detail": "there is no event type 'order.shipped'",
  "hint": "Create it with `penstock event-type create NAME` or POST /event-types.",
  "event_type": "order.shipped"
}}
```

Search this page for the code. Codes and fields are part of the interface; `title`, `detail` and `hint` are for people
and may change.

In Python it is an exception of a class in `penstock.errors`, which
[draws them as a tree](../../../src/penstock/errors/__init__.py). The client raises the error that the hub raised:

```python
try:
    client.publish("order.shipped", events)
except PenstockError as error:
    print(error.code, error.hint, error.retryable, error.fields)
```

- Fields are typed attributes, such as `error.event_type`; one of type `str?` is a `str` or None.
- `error.retryable` says whether the same request can succeed later. All errors of class `Unavailable` have
  `retry_after`, in seconds; with 503 it is the header `Retry-After`, too.
- A class can have several codes, for causes that callers handle alike: catch the class, and compare `error.code`.
- A hub with `--nakadi-strict` sends no codes: the client raises the class of the status, such as `NotFound`.
- A problem of type `about:blank` is no such route (404), no such method (405), or a defect of the hub (500).

## By area

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


LEAD = "Codes with status, cause and remedy; classes with their fields. [All codes](README.md)."
TITLES = {
    "access": "authentication and authorization",
    "admin": "settings, permissions, the hub's state",
    "batches": "batches and uploads",
    "general": "parameters and unknown outcomes",
    "groups": "consumer groups",
    "http": "HTTP and connections",
    "log": "publishing and reading",
    "processing": "processors and projections",
    "producers": "idempotent producers",
    "registry": "event types and schemas",
    "storage": "databases and the cold tier",
    "subscriptions": "subscriptions",
}
"""What the errors of each module are about."""


def render() -> dict[str, str]:
    """Return the pages, by name of file."""
    return {"README.md": _index(), **{f"{name}.md": _page(name) for name in _areas()}}


def _index() -> str:
    areas = "".join(f"- [{_title(name)}]({name}.md)\n" for name in _areas())
    statuses = sorted({_status(*each) for each in _raised()})
    rows = "".join(f"| {status} | {_links(status)} |\n" for status in statuses)
    return f"{HEAD}{areas}\n## By status\n\n| status | codes |\n|---|---|\n{rows}"


def _areas() -> list[str]:
    return sorted({_area_of(kind) for kind, _ in _raised()})


def _area_of(kind: type[PenstockError]) -> str:
    return kind.__module__.rpartition(".")[2].replace("root", "general")


def _title(area: str) -> str:
    return TITLES[area]


def _page(area: str) -> str:
    kinds = [
        kind
        for kind in errors.ALL
        if kind is not PenstockError and _area_of(kind) == area and (_codes(kind) or _own_fields(kind))
    ]
    sections = "\n".join(map(_section, kinds))
    return f"# Errors: {_title(area)}\n\n{WRITTEN}\n\n{LEAD}\n\n{sections}"


def _links(status: str) -> str:
    return ", ".join(
        f"[`{code}`]({_area_of(kind)}.md#{code})" for kind, code in _raised() if _status(kind, code) == status
    )


def _codes(kind: type[PenstockError]) -> list[str]:
    """Return the codes that errors of *kind* itself are raised with."""
    return ([kind.code] if "message" in vars(kind) else []) + list(kind.cases)


def _raised() -> list[tuple[type[PenstockError], str]]:
    """Return the classes that are raised themselves, with each of their codes, sorted by code."""
    raised = [(kind, code) for kind in errors.ALL if kind is not PenstockError for code in _codes(kind)]
    return sorted(raised, key=lambda each: each[1])


def _section(kind: type[PenstockError]) -> str:
    """Return the section of a class: its only code, or what its codes share and each of them."""
    codes = _codes(kind)
    says = " ".join((kind.__doc__ or "").split())
    if len(codes) == 1 and codes[0] not in kind.cases:
        [code] = codes
        first = f"## `{code}`\n\n`{kind.__name__}`, {_status(kind, code)}. {says}"
        return f"{first} {_advice(kind, code)}\n{_fields(kind)}"
    cases = "".join(
        f"\n### `{code}`\n\n{_status(kind, code)}: {_message(kind, code)}. {_advice(kind, code)}\n" for code in codes
    )
    intro = "" if codes else f"\n{says}\n"  # The codes say it in detail.
    return f"## {kind.__name__}\n{intro}{_fields(kind)}{cases}"


def _message(kind: type[PenstockError], code: str) -> str:
    return _example(kind.cases[code].message if code in kind.cases else kind.message)


def _example(message: str) -> str:
    """Return a message with its fields as words in code."""
    return re.sub(r"\{(?:at_)?(\w+)(![rs])?\}", r"`\1`", message)


def _fields(kind: type[PenstockError]) -> str:
    """Return the paragraph of the fields that *kind* and its ancestors declare; empty if they declare none."""
    described = [_described(name, *each) for name, each in _own_fields(kind).items()]
    ancestors = kind.__mro__[1 : kind.__mro__.index(PenstockError)]
    described += [
        f"those of `{each.__name__}`" for each in ancestors if each is not errors.Unavailable and _own_fields(each)
    ]
    return f"\nFields: {', '.join(described)}.\n" if described else ""


def _own_fields(kind: type[PenstockError]) -> dict[str, tuple[str, str | None]]:
    """Return the fields that *kind* declares: of each its type and its docstring."""
    found: dict[str, tuple[str, str | None]] = {}
    [declared] = ast.parse(inspect.getsource(kind)).body
    assert isinstance(declared, ast.ClassDef)
    for member, after in pairwise([*declared.body, ast.Pass()]):
        if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name) and member.value is None:
            says = None
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                says = " ".join(str(after.value.value).split())
            found[member.target.id] = (ast.unparse(member.annotation), says)
    return found


def _described(name: str, kind: str, says: str | None) -> str:
    kind = kind.replace(" | None", "?")
    if says is None:
        return f"`{name}: {kind}`"
    first = says if says.startswith("None") else says[0].lower() + says[1:]
    return f"`{name}: {kind}` ({_brief(name, first.rstrip('.'))})"


def _brief(name: str, says: str) -> str:
    """Return what a docstring *says* of a field, less the words that repeat its *name*."""
    repeated = re.match(r"the ([\w ]+?),? (in `.*)", says)
    return repeated[2] if repeated and repeated[1].split()[-1] in name.split("_") else says


def _status(kind: type[PenstockError], code: str) -> str:
    if code in LOCAL:
        return "Python only"
    return str(status_of(kind.of(code)))


def _advice(kind: type[PenstockError], code: str) -> str:
    hint = kind.cases[code].hint if code in kind.cases else kind.hint
    assert hint or code in ADVICE, f"{kind.__name__} with code {code!r} needs a hint"
    return hint or ADVICE[code]


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in render().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
