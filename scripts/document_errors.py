"""Writes docs/errors.md from the errors themselves: `.venv/bin/python scripts/document_errors.py`.

Codes, statuses, fields and hints are read from the code. What to do about an error is said here; a new error without
advice is refused.
"""

import ast
import inspect
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

In Python it is an exception of the class below. It has the fields as attributes with types, such as `error.event_type`,
beside `error.code`, `error.hint`, and `error.retryable`, which says whether the same request can succeed later,
unchanged. `error.fields` has all fields by name. An attribute whose type allows None is None if the field is not there.

The client raises what the hub raised. A hub served with `--nakadi-strict` sends no codes: the client then raises the
class of the status, such as `NotFound`. All classes are in `penstock.errors`; catching one catches those below it.

Codes and fields are part of the interface and stay. `title`, `detail` and `hint` are for people and may change.

Answers of type `about:blank` are none of these: no such route (404), a method that the route does not know (405), and a
defect of the hub itself (500), of which the hub's log has more.

## The tree

```text
"""

ADVICE = {
    "already-published": "Make a new `Event`, or a new batch, for each time that something is to be published.",
    "bad-cursor": "Bring the cursor exactly as it was given, to the feed and partition that gave it. If it is lost, "
    "start at `_first`.",
    "bad-parameter": "Correct the parameter that it names.",
    "bad-partition-count": "Use one of the `n` that it names, or discover the feed.",
    "bad-producer-headers": "Correct the header that it names; send all three, or none.",
    "bad-stream-parameter": "Correct the parameter that it names.",
    "batch-incomplete": "Publish the batch again, from the same rows, or forget what is begun of it.",
    "batch-not-found": "Look at the newest ones, `GET .../producers/{group}/batches`, or publish it.",
    "batch-of-another-mode": "Publish the batch to its end in the mode in which it was begun.",
    "batch-of-another-query": "Give each query a producer group of its own. Where the query before is gone for good, "
    "forget its batches.",
    "batch-superseded": "Look whether two queries run under one name, or a checkpoint was lost.",
    "batch-unfinished": "Publish the batch that it names to its end; then this one.",
    "blocked": "Ask whoever runs the hub.",
    "body-too-large": "Publish less at a time. The Python client does so by itself.",
    "chunk-differs": "Send the chunk as it was, or begin an upload of your own.",
    "claim-refused": "Claim `next` to take over; or, where somebody else has done so, leave it.",
    "commit-refused": "Go on reading: its events are sent again, to whoever has the partition. Hand cursors back "
    "with their `cursor_token`.",
    "deadline-passed": "Send the same batch again, with the same numbers.",
    "epoch-exhausted": "Go on with another producer group.",
    "invalid-subscription": "Correct what `violations` names.",
    "bad-outcome": "Return None, the index wanted next, or what `done`, `done_to`, `retry` and `skip_to` return.",
    "bad-results": "Return a list with a result for each item, in their order, or make the batcher without `each`.",
    "commit-unknown": "Start the processor again when its database is back: it finds out what was committed.",
    "transaction-ended": "Have the handler neither commit nor roll back.",
    "checkpoint-moved": "Stop the other processor of that name, or start again: it goes on where the checkpoint is.",
    "checkpoint-not-found": "Look which processors there are: `penstock checkpoint list`.",
    "already-started": "Make another processor with the same name and checkpoints: it goes on where the first one was.",
    "projection-behind": "Have that version's processor catch up, then switch.",
    "projection-gone": "Put the table, or the files, back; or forget the checkpoint, too, and have all be made anew.",
    "projection-not-found": "Make the rows first, with `project`.",
    "parked-stream-not-found": "Look which streams are parked: `penstock checkpoint parked`.",
    "invalid-line": (
        "Mend the line that it names, or begin it with `#` to have it passed over; or put the file back whole, where "
        "it ends in the middle. Then start again."
    ),
    "file-changed": "Put the file back, or have the processor begin anew with it: `penstock checkpoint set` to 0:0#0.",
    "not-replayable": "Let the processor stop at what it cannot handle, or read from a source that keeps its events.",
    "fold-failed": "Mend the fold and go on: all other events are folded in.",
    "kind-unexpected": "Give `by_kind` a handler for that kind, or one for all others.",
    "processor-unhealthy": "Mend the handler and start again: it goes on where it was.",
    "source-silent": "The log says what failed, such as a hub that is away. Start again then: it goes on where it was.",
    "stream-exhausted": "Mend the handler and start again: it goes on where it was.",
    "landed-page-missing": "Put back what was deleted, or mount what is not; or begin anew with another checkpoint.",
    "malformed-request": "Correct the client, or what stands between it and the hub: the detail says what is wrong.",
    "request-too-slow": "Send the request again, in smaller parts where the connection is slow. `penstock serve` has "
    "the options `--header-timeout` and `--body-timeout`.",
    "target-too-long": "Ask for fewer partitions in one request.",
    "headers-too-large": "Send fewer or shorter headers.",
    "malformed-subscription": "Correct what `violations` names.",
    "no-free-slots": "Wait until another stream has ended; there are as many as there are partitions.",
    "parked-not-found": "List the parked keys: it has been acknowledged, skipped, or reset since.",
    "partition-required": "Send the batch to a partition: see [idempotent publishing](http.md#publish-idempotently).",
    "partitions-taken": "Ask for other partitions, or for none.",
    "payload-mismatch": "Find out who else publishes with that group and epoch, or why a batch was numbered or "
    "written anew. Then claim the next epoch.",
    "producer-fenced": "See `committed` for what has become of the batch. Stop: another instance publishes. Or take "
    "over: claim the next epoch.",
    "producer-not-found": "Nothing, where it has not published yet; else correct the group or the partition.",
    "producer-state-expired": "Claim the next epoch. Look whether what was sent last is stored before you publish "
    "it again.",
    "publish-cancelled": "Where the `outcome` is `unknown`, send the same again, or ask `resolve`: the producer "
    "finds out.",
    "replay-differs": "Bring what was published before, only longer; or publish it with another producer group.",
    "reset-under-way": "Try again in a moment.",
    "retries-exhausted": "Send the same again, or something else: where the `outcome` is `unknown`, the producer "
    "finds out first.",
    "rows-scattered": "Write what `penstock.spark.direct(rows, ...)` returns.",
    "sequence-gap": "Send the batches that are missing, from `expected` on; or claim the next epoch.",
    "sequence-overlap": "Send what is missing, from `next_sequence` on; or the same with `Producer-Overlap: trim`.",
    "sequence-too-old": "Look for the events in what you keep of the feed. To go on, use `next_sequence`.",
    "server-state-regressed": "Find out what the hub was put back to, and publish what it has lost with another "
    "producer.",
    "stream-not-found": "Open another stream: what was not committed is sent again. Give a slow handler a longer "
    "`commit_timeout`, or extend the lease.",
    "streams-in-the-way": "Try again; stop the consumers before, if they do not end.",
    "subscription-not-found": "List the subscriptions, or subscribe.",
    "too-many-events": "Publish less at a time; a thousand in each request are nearly as fast as any number.",
    "changes-switched-off": "Ask whoever runs the hub until when, and try again then.",
    "connection-lost": "Read again from the last cursor. The client does so by itself for `retry_timeout`.",
    "cursor-expired": "Decide: go on from `first_available` without the events that were lost, or load the state anew "
    "from elsewhere. Nobody does it for you.",
    "cursor-moved": "Roll back: the same consumer runs twice. Go on from the cursors that are stored.",
    "cursor-set-not-found": "Begin with cursors, such as `_first`, and give your name with them.",
    "database-unavailable": "Try again after `Retry-After` seconds. If it stays: `penstock doctor`.",
    "disk-full": "Make room on the database's disk. The hub goes on by itself.",
    "eid-missing": "Roll back. Have the producer give each event an `eid`; business and data event types see to it.",
    "encoding-refused": "Leave out the header `Content-Encoding`.",
    "encoding-unsuitable": "Use a database whose encoding is UTF-8. That of one that exists cannot be changed.",
    "event-too-large": "Publish a reference to where the rest lies.",
    "event-type-exists": "Use it, or choose another name.",
    "event-type-in-use": "Delete the subscriptions that it names, then the event type.",
    "event-type-not-found": "Create it, or correct the name.",
    "event-unfit": "Correct the type. Or pass the event over knowingly: keep `event.raw`, store the page's cursors.",
    "events-lost": "Set `failOnDataLoss` to false to go on without them, or begin anew with another checkpoint.",
    "feed-created-again": "Begin anew: `penstock checkpoint forget` or `penstock groups reset`, and projections with "
    "another version.",
    "group-kind-differs": "Do what its `reason` says, or use another name.",
    "group-not-found": "Correct the name; or commit, which makes it.",
    "guidelines-broken": "Keep the guidelines that it names, or waive each by an annotation with the reason.",
    "hub-stopped": "Try again after `Retry-After` seconds, at another hub or when this one is back.",
    "incompatible-schema": "Each of `changes` says what to do `instead`; "
    "`penstock event-type check --against` tells it beforehand.",
    "inside-transaction": "Publish by the outbox: your transaction and the event are then committed together.",
    "invalid-row": "Mend the query, or have such rows kept among the rejected: `onInvalid`.",
    "invalid-event": "Correct the event that it names. Nothing of the request was written, save the chunks before it.",
    "invalid-event-type": "Correct the member that it names.",
    "invalid-setting": "Correct the member that it names.",
    "malformed-answer": "Check the address. If it is right, tell whoever runs that server; a proxy may have cut it.",
    "malformed-batch": "Correct the body, or the event that it names. Nothing of the request was written.",
    "malformed-event": "Correct the event that it names. Nothing was written, save the chunks before it.",
    "malformed-event-type": "Correct the member that it names.",
    "arrow-not-installed": "Install the extra where the hub runs and restart it, or read NDJSON.",
    "not-acceptable": "Ask for one of the forms that it names.",
    "not-offered": "Ask whoever runs the hub, or another hub.",
    "order-unknown": "Roll back. Name other fields, or leave out the event that it names and go on without it.",
    "outbox-backlog": "Try again: each try moves some thousand rows more. If it stays, look for what fills the outbox.",
    "non-deterministic-replay": "Let the query give the same rows each time, or publish in mode staged.",
    "outcome-unknown": "Read the feed to see whether the events are there, before you publish them again.",
    "outside-transaction": "Begin a transaction before, and commit it after the events have had their effect.",
    "partition-not-found": "Discover the feed.",
    "partition-refused": "Give the event its key field, or the line a key; under `user_defined` an existing partition.",
    "position-moved": "Roll back, and go on from what stands there; or stop, where somebody else has taken over.",
    "publishing-restricted": "Publish by the outbox, or change the event type's option `publishing`.",
    "requirement-missing": "Install what it names.",
    "schema-missing": "`penstock migrate`.",
    "schema-too-new": "Install the version of Penstock that has migrated the database, or a newer one.",
    "schema-version-not-found": "List the versions, or use `latest`.",
    "server-error": "See `status` and `body`: they are the other server's.",
    "snapshot-outdated": "Roll back, and begin transactions that will write with `BEGIN IMMEDIATE`.",
    "stale-split": "Go on from a cursor of whole partitions, if you have one; else begin at `_first`.",
    "stale-token": "Discover the feed again, and go on with the cursors that you have.",
    "storage-fixed": "Leave it: there is nothing to choose.",
    "storage-in-use": "Leave it; drop event types one by one.",
    "storage-not-found": "Use the one that it names.",
    "table-gone": "Put a backup of them in their place, or start again, with nothing kept.",
    "table-unsuitable": "Have another name be used, by `table` or `--table`; or rename the table that has it.",
    "too-many-producers": "Use few groups with names that last, and delete those that are done.",
    "too-many-uploads": "Publish what waits, drop it, or wait until it expires.",
    "unavailable": "Try again after `Retry-After` seconds.",
    "undeletable-events": "Delete events only where the event type is compacted.",
    "unknown-consumer": "Leave the tag out: what a subscription has parked is sent to it again by "
    "`POST …/parked/retry`.",
    "proxy-unreachable": "Correct or unset the variable that names the proxy, or name the server's host in "
    "`NO_PROXY`: then it is asked directly. Nothing was sent.",
    "unreachable": "Check the address, and that the hub runs. Nothing was sent.",
    "unsupported-media-type": "Use one of those that it names.",
    "upload-incomplete": "Hand in what is missing, or name the upload as it is: its chunks, its events, their digest.",
    "upload-not-found": "Hand the events in again, in a new upload.",
    "upload-taken": "Nothing, where it was published; else begin a new upload.",
    "unusable-cursor": "Ask for the partitions: they tell which offsets there are. `BEGIN` is before the first.",
    "unusable-position": "Correct the item that it names. `GET /event-types/{event_type}/partitions` tells which "
    "offsets there are.",
    "unusable-start": "Decide: go on at `BEGIN` or at the newest offset without the events between, or load the state "
    "anew from elsewhere. Nobody does it for you.",
    "wrong-address": "Correct the address: scheme, host, port, and the path where the hub is mounted.",
    "wrong-category": "Use it for event types of the category that it wants, or let each effect bear a repeat.",
}
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
"""Raised in the process of whoever calls; no hub answers with them."""


def render() -> str:
    """Return the page."""
    tree = "\n".join(line.removeprefix("    ") for line in (errors.__doc__ or "").splitlines() if _is_drawn(line))
    statuses = sorted({_status(kind) for kind in _raised()})
    rows = [f"| {status} | {_links(status)} |\n" for status in statuses]
    sections = "\n".join(_section(kind) for kind in _raised())
    return f"{HEAD}{tree}\n```\n\n## By status\n\n| status | |\n|---|---|\n{''.join(rows)}\n## One by one\n\n{sections}"


def _links(status: str) -> str:
    return ", ".join(f"[`{kind.code}`](#{kind.code})" for kind in _raised() if _status(kind) == status)


def _is_drawn(line: str) -> bool:
    return line.strip() == "PenstockError" or "├──" in line or "└──" in line


def _raised() -> list[type[PenstockError]]:
    """Return the classes that are raised themselves, by code; those that only gather others are not."""
    kinds = errors.ALL
    raised = [kind for kind in kinds if kind is not PenstockError and "message" in vars(kind)]
    return sorted(raised, key=lambda kind: kind.code)


def _section(kind: type[PenstockError]) -> str:
    rows = [
        f"- Class: `{kind.__name__}`",
        f"- Status: {_status(kind)}{', with `Retry-After`' if _status(kind) == '503' else ''}",
        f"- Fields: {', '.join(_described(name, *each) for name, each in _fields(kind).items())}",
        f"- What to do: {_advice(kind)}",
    ]
    says = " ".join((kind.__doc__ or "").split())
    return f"### `{kind.code}`\n\n{says}\n\n" + "".join(f"{row}\n" for row in rows if not row.endswith(": "))


def _fields(kind: type[PenstockError]) -> dict[str, tuple[str, str | None]]:
    """Return the fields that *kind* and its ancestors declare: of each its type and its docstring."""
    found: dict[str, tuple[str, str | None]] = {}
    for each in reversed(kind.__mro__[: kind.__mro__.index(PenstockError)]):
        [declared] = ast.parse(inspect.getsource(each)).body
        assert isinstance(declared, ast.ClassDef)
        for member, after in pairwise([*declared.body, ast.Pass()]):
            if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
                says = None
                if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    says = " ".join(str(after.value.value).split())
                found[member.target.id] = (ast.unparse(member.annotation), says)
    if issubclass(kind, errors.Unavailable) and kind.code not in LOCAL:
        found["retry_after"] = ("float", None)
    return found


def _described(name: str, kind: str, says: str | None) -> str:
    if says is None:
        return f"`{name}: {kind}`"
    first = says if says.startswith("None") else says[0].lower() + says[1:]
    return f"`{name}: {kind}` ({first.rstrip('.')})"


def _status(kind: type[PenstockError]) -> str:
    return "none, it is raised in Python alone" if kind.code in LOCAL else str(status_of(kind()))


def _advice(kind: type[PenstockError]) -> str:
    assert kind.code in ADVICE, f"say in {Path(__file__).name} what to do about {kind.code!r}"
    return ADVICE[kind.code]


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
