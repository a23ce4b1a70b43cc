"""Tokens: created once, kept as digests, found from memory, expired, rotated, revoked."""

import re

import pytest

from penstock.core.access import Caller
from penstock.errors import RecordNotFound, TokenSuperseded
from penstock.hub.admin.permissions import AccessPolicy
from penstock.hub.admin.sweeping import TOKENS_KEPT_SECONDS
from penstock.hub.admin.tokens import TOKEN_CHARS, USE_INTERVAL, Tokens
from penstock.hub.hub import Hub
from penstock.testing.clock import VirtualClock

BILLING = Caller("service", "billing")
ONE_SECOND = 1_000_000


@pytest.fixture
def hub(hub: Hub) -> Hub:
    """A hub that authenticates callers."""
    hub.admin.permissions.enforce(AccessPolicy())
    return hub


@pytest.fixture
def tokens(hub: Hub) -> Tokens:
    return hub.admin.tokens


def find(hub: Hub, secret: str) -> Caller | None:
    """Return whose token *secret* is by what the database says now."""
    hub.admin.permissions.refresh()
    found = hub.admin.tokens.find(secret.encode())
    return None if found is None else found.caller


def test_token_has_256_random_bits_and_is_stored_as_a_digest(hub: Hub, tokens: Tokens, migrated_url: str) -> None:
    created = [tokens.create(BILLING) for _ in range(20)]

    assert len({each.secret for each in created}) == 20
    assert all(re.fullmatch("pst_[A-Za-z0-9_-]{43}", each.secret) for each in created)
    assert {len(each.secret) for each in created} == {TOKEN_CHARS}
    with hub.store.read() as tx:
        assert not any(each.secret in str(tx.access.list_tokens()) for each in created)
    assert {find(hub, each.secret) for each in created} == {BILLING}


@pytest.mark.parametrize("secret", ["", "pst_", "pst_" + "a" * 43, "x" * 10_000])
def test_unknown_token_is_nobodys(hub: Hub, tokens: Tokens, secret: str) -> None:
    tokens.create(BILLING)

    assert find(hub, secret) is None


def test_refused_token_is_explained_by_reason_and_id(hub: Hub, tokens: Tokens, clock: VirtualClock) -> None:
    expired, revoked = tokens.create(BILLING, expires_in_seconds=10), tokens.create(BILLING)
    assert {find(hub, each.secret) for each in (expired, revoked)} == {BILLING}
    clock.advance(seconds=10)
    tokens.revoke(revoked.token.id)
    hub.admin.permissions.refresh()

    def explain(secret: str) -> tuple[str | None, str | None]:
        error = tokens.explain(secret.encode())
        return error.reason, error.token

    assert explain(expired.secret) == ("token expired", expired.token.id)
    assert explain(revoked.secret) == ("token revoked", revoked.token.id)
    assert explain("pst_" + "a" * 43) == ("token unknown", None)


def test_last_revoked_tokens_are_remembered(hub: Hub, tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.hub.admin.tokens.REVOKED_MAX", 2)
    created = [tokens.create(BILLING) for _ in range(3)]
    hub.admin.permissions.refresh()
    for each in created:
        tokens.revoke(each.token.id)
        hub.admin.permissions.refresh()

    reasons = [tokens.explain(each.secret.encode()).reason for each in created]
    assert reasons == ["token unknown", "token revoked", "token revoked"]


def test_token_expires(hub: Hub, tokens: Tokens, clock: VirtualClock) -> None:
    created = tokens.create(BILLING, expires_in_seconds=10)
    clock.advance(seconds=9)
    assert find(hub, created.secret) == BILLING
    clock.advance(seconds=1)

    assert find(hub, created.secret) is None


def test_revoked_token_is_nobodys(hub: Hub, tokens: Tokens) -> None:
    created, other = tokens.create(BILLING), tokens.create(BILLING)
    assert find(hub, created.secret) == BILLING

    tokens.revoke(created.token.id)

    assert find(hub, created.secret) is None
    assert find(hub, other.secret) == BILLING
    with pytest.raises(RecordNotFound):
        tokens.revoke(created.token.id)


def test_rotated_token_overlaps_with_its_successor(hub: Hub, tokens: Tokens, clock: VirtualClock) -> None:
    old = tokens.create(BILLING, expires_in_seconds=1000)
    clock.advance(seconds=500)
    new = tokens.rotate(old.token.id, overlap_seconds=60)

    assert new.token.expires_at == clock() + 1000 * ONE_SECOND
    assert find(hub, old.secret) == find(hub, new.secret) == BILLING
    clock.advance(seconds=60)
    assert find(hub, old.secret) is None
    assert find(hub, new.secret) == BILLING


def test_rotation_prolongs_no_token(tokens: Tokens, clock: VirtualClock) -> None:
    old = tokens.create(BILLING, expires_in_seconds=10)

    tokens.rotate(old.token.id, overlap_seconds=3600)

    assert {each.id: each.expires_at for each in tokens.list()}[old.token.id] == clock() + 10 * ONE_SECOND
    with pytest.raises(RecordNotFound):
        tokens.rotate("unknown", overlap_seconds=0)


@pytest.mark.parametrize("expires_in", [1000.0, None])
def test_token_that_was_rotated_is_not_rotated_again_into_one_that_lives_shorter(
    tokens: Tokens, clock: VirtualClock, expires_in: float | None
) -> None:
    old = tokens.create(BILLING, expires_in_seconds=expires_in).token
    clock.advance(seconds=10)
    new = tokens.rotate(old.id, overlap_seconds=60).token

    for _ in range(2):
        with pytest.raises(TokenSuperseded) as refused:
            tokens.rotate(old.id, overlap_seconds=60)
        assert refused.value.newer == new.id
        clock.advance(seconds=61)  # The old one has expired.

    assert [each.id for each in tokens.list()] == [old.id, new.id]


def test_each_of_two_tokens_of_a_caller_can_be_rotated(tokens: Tokens, clock: VirtualClock) -> None:
    first, second = (tokens.create(BILLING, expires_in_seconds=1000).token for _ in range(2))

    for each in (second, first):
        clock.advance(seconds=10)
        assert tokens.rotate(each.id, overlap_seconds=60).token.expires_at == clock() + 1000 * ONE_SECOND


def test_last_use_is_recorded_within_a_minute(hub: Hub, tokens: Tokens, clock: VirtualClock) -> None:
    created = tokens.create(BILLING)
    find(hub, created.secret)
    tokens.note_uses(lambda: float("inf"))
    first = clock()
    assert [each.used_at for each in tokens.list()] == [first]

    clock.advance(seconds=USE_INTERVAL)
    find(hub, created.secret)
    tokens.note_uses(lambda: float("-inf"))

    assert [each.used_at for each in tokens.list()] == [first]


def test_token_that_has_expired_is_deleted_in_the_end(hub: Hub, tokens: Tokens, clock: VirtualClock) -> None:
    tokens.create(BILLING, expires_in_seconds=10)
    tokens.create(BILLING)
    clock.advance(seconds=TOKENS_KEPT_SECONDS)
    hub.admin.sweeper._remove_some()
    assert len(tokens.list()) == 2
    clock.advance(seconds=11)
    hub.admin.sweeper._remove_some()

    assert [each.expires_at for each in tokens.list()] == [None]
