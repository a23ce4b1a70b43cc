"""Errors on the command line: their text, and a hint that names commands."""

import re

import pytest

from penstock import errors
from penstock.cli.failures import explain_error
from penstock.client.http.proxies import connection_failure
from penstock.errors import PenstockError

ROUTE = re.compile(r"\b(GET|POST|PUT|PATCH|DELETE) /")
WITHOUT_A_COMMAND = {"blocked", "changes-switched-off", "schema-version-not-found", "partition-required"}
"""What they advise can be done over HTTP alone."""


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (
            errors.ParkedNotFound(subscription="5f0c", parked=7),
            "`penstock groups parked list 5f0c` has those that there are.",
        ),
        (errors.SubscriptionNotFound(subscription="x"), "`penstock subscription list` has all."),
        (
            errors.GroupNotFound(group="x"),
            "`penstock groups` has all; a group is made with the first position that it commits.",
        ),
        (
            errors.UnusablePosition.of("unusable-start", partition="0", offset="x", reason="it is none"),
            "`penstock event-type show NAME` has the offsets that there are; BEGIN is before the first.",
        ),
        (errors.CommitRefused(), "Nothing of this request was committed."),
        (errors.ParkedNotFound("said otherwise"), errors.ParkedNotFound.hint),
        (errors.InvalidEvent(line=1, reason="no"), None),
    ],
    ids=["with a field", "not there", "no group", "of a code", "as the hub says", "no fields", "nothing"],
)
def test_hint_names_a_command_if_there_is_one(error: PenstockError, hint: str | None) -> None:
    assert explain_error(error) == (error.detail, hint)


def test_server_without_tls_is_not_taken_for_one_that_is_away() -> None:
    error = connection_failure("https://hub", "[SSL: WRONG_VERSION_NUMBER]", None, is_unsent=True)

    assert explain_error(error) == (error.detail, "The server there speaks no TLS: begin the address with http://.")


def test_refused_token_is_named_by_its_file_or_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.hub._given", {})
    monkeypatch.delenv("PENSTOCK_TOKEN", raising=False)
    assert "Name a file" in (explain_error(errors.Unauthenticated())[1] or "")

    monkeypatch.setenv("PENSTOCK_TOKEN", "pst_secret")
    assert explain_error(errors.Unauthenticated())[0] == "the hub refused the token in the variable PENSTOCK_TOKEN"

    monkeypatch.setattr("penstock.cli.hub._given", {"token_file": "billing.token"})
    detail, hint = explain_error(errors.Unauthenticated())
    assert detail == "the hub refused the token in the file billing.token"
    assert "the hub's log says why" in (hint or "")


@pytest.mark.parametrize(
    ("kind", "code"),
    [(kind, code) for kind in errors.ALL for code in (kind.code, *kind.cases) if code not in WITHOUT_A_COMMAND],
)
def test_hint_names_no_route(kind: type[PenstockError], code: str) -> None:
    fields = dict.fromkeys(("subscription", "group", "kind", "event_type", "partition"), "x")

    detail, hint = explain_error(kind.of(code, **fields))

    assert ROUTE.search(f"{detail} {hint}") is None
