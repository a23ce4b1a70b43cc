"""JSON Web Tokens: who is identified by which, and what attackers try."""

import asyncio
import hashlib
import hmac
import sys
import time
from collections.abc import Iterator
from math import isfinite
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.access import Caller
from penstock.errors import HubUnavailable, RequirementMissing, Unauthenticated
from penstock.server.authentication import jwt as method
from penstock.server.authentication.authentication import Authentication
from penstock.server.authentication.issuer_keys import IssuerKeys, keys_of
from penstock.server.authentication.jwt import LEEWAY_SECONDS, CallerClaims, JwtMethod
from penstock.server.http.requests import CREDENTIAL
from tests.server.authentication.issuer import (
    AUDIENCE,
    ISSUER,
    claims,
    ec_key,
    ed25519_key,
    jwk,
    key_set,
    part,
    rsa_key,
    scope_of,
    sign,
    started,
)

BILLING = Caller("service", "billing")
KEYS = key_set(jwk(rsa_key(), kid="first"), jwk(ec_key(), kid="ec"), jwk(ed25519_key(), kid="ed"))


def tokens_of(document: bytes = KEYS, **options: Any) -> JwtMethod:
    """Return a method whose keys are loaded."""
    keys = IssuerKeys(lambda: document, "test")
    keys.load()
    return started(JwtMethod(ISSUER, [AUDIENCE, "other-name"], keys, **options))


@pytest.fixture
def tokens() -> Iterator[JwtMethod]:
    found = tokens_of()
    yield found
    found.close()


def identify(tokens: JwtMethod, token: bytes | None, **options: Any) -> Caller | None:
    """Return the caller; wait for keys, if they are asked for."""

    async def run() -> Caller | None:
        found = tokens.identify(scope_of(token, **options))
        return found if found is None or isinstance(found, Caller) else await found

    return asyncio.run(run())


def reason_for(tokens: JwtMethod, token: bytes) -> str:
    """Return why *token* is refused; the client sees one and the same error."""
    with pytest.raises(Unauthenticated) as refused:
        identify(tokens, token)
    assert str(refused.value) == str(Unauthenticated())
    return str(refused.value.fields["reason"])


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"),
    [(rsa_key(), "RS256", "first"), (ec_key(), "ES256", "ec"), (ed25519_key(), "EdDSA", "ed")],
    ids=["RS256", "ES256", "EdDSA"],
)
def test_token_of_each_algorithm_identifies_its_caller(tokens: JwtMethod, key: Any, algorithm: str, kid: str) -> None:
    token = sign(key, algorithm, {"kid": kid})

    assert [identify(tokens, token) for _ in range(3)] == [BILLING] * 3


def test_token_without_key_id_is_checked_with_each_key_of_its_algorithm() -> None:
    tokens = tokens_of(key_set(jwk(rsa_key(1)), jwk(rsa_key())))

    assert identify(tokens, sign(headers={})) == BILLING
    assert "verification failed" in reason_for(tokens, sign(rsa_key(2), headers={}))


def test_request_without_json_web_token_has_none(tokens: JwtMethod) -> None:
    assert identify(tokens, None) is None
    assert identify(tokens, b"pst_" + b"a" * 43) is None
    assert identify(tokens, b"YTpi", scheme=b"Basic") is None
    assert identify(tokens, sign(), scheme=b"bEARER") == BILLING


WRONG_CLAIMS: list[tuple[dict[str, Any], str]] = [
    ({"exp": -LEEWAY_SECONDS - 5}, "expired"),
    ({"exp": None}, "exp"),
    ({"exp": "9999999999"}, "not a time"),
    ({"exp": 10**400}, "not a time"),
    ({"exp": True}, "expired"),
    ({"exp": 1e400}, "exp"),
    ({"exp": [1]}, "exp"),
    ({"nbf": LEEWAY_SECONDS + 60}, "not yet valid"),
    ({"iat": LEEWAY_SECONDS + 60}, "not yet valid"),
    ({"nbf": "soon"}, "nbf"),
    ({"aud": "another-service"}, "Audience"),
    ({"aud": ["a", "b"]}, "Audience"),
    ({"aud": None}, "aud"),
    ({"aud": []}, "aud"),
    ({"aud": {"penstock": 1}}, "Invalid claim"),
    ({"iss": "https://login.example.evil"}, "issuer"),
    ({"iss": None}, "iss"),
    ({"iss": [ISSUER]}, "Issuer"),
    ({"sub": None}, "no claim sub"),
    ({"sub": 7}, "Subject"),
    ({"sub": ""}, "no name"),
    ({"sub": "*"}, "no name"),
    ({"sub": "a\nb"}, "no name"),
    ({"sub": "a" * 256}, "no name"),
    ({"cnf": {"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}}, "cnf"),
]
"""Finite decimal numbers are seconds from now on, when the test runs."""


@pytest.mark.parametrize(
    ("changed", "reason"),
    WRONG_CLAIMS,
    ids=[f"{name} {number}" for number, (changed, _) in enumerate(WRONG_CLAIMS) for name in changed],
)
def test_token_with_wrong_claims_is_refused(tokens: JwtMethod, changed: dict[str, Any], reason: str) -> None:
    now = time.time()
    token = sign(
        **{
            name: now + value if isinstance(value, float) and isfinite(value) else value
            for name, value in changed.items()
        }
    )

    assert reason in reason_for(tokens, token)
    assert reason in reason_for(tokens, token), "the second time as well"


def test_clocks_may_differ_by_half_a_minute(tokens: JwtMethod) -> None:
    now = time.time()

    assert identify(tokens, sign(exp=now - LEEWAY_SECONDS / 2)) == BILLING
    assert identify(tokens, sign(nbf=now + LEEWAY_SECONDS / 2, iat=now + LEEWAY_SECONDS / 2)) == BILLING


def test_one_of_several_audiences_is_enough(tokens: JwtMethod) -> None:
    assert identify(tokens, sign(aud=["a", "other-name"])) == BILLING


def test_remembered_token_is_refused_once_it_has_expired() -> None:
    now = [time.time()]
    tokens = tokens_of(clock=lambda: now[0])
    token = sign(exp=now[0] + 100)
    assert identify(tokens, token) == BILLING

    now[0] += 99 + LEEWAY_SECONDS
    assert identify(tokens, token) == BILLING

    now[0] += 2
    assert len(tokens._verified) == 1
    identify(tokens, sign(sub="other"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jwt.api_jwt, "datetime", Later)
        assert "expired" in reason_for(tokens, token)
    assert len(tokens._verified) == 1


class Later:
    """A clock for PyJWT that is ahead."""

    @staticmethod
    def now(tz: Any) -> Any:
        from datetime import datetime, timedelta

        return datetime.now(tz) + timedelta(seconds=200)


def test_remembered_tokens_are_bounded(tokens: JwtMethod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(method, "REMEMBERED_MAX", 3)

    for number in range(4):
        identify(tokens, sign(sub=f"caller-{number}"))

    assert {each.caller.value for each in tokens._verified.values()} == {"caller-3"}


def test_token_is_refused_once_its_key_is_withdrawn() -> None:
    document = [KEYS]
    keys = IssuerKeys(lambda: document[0], "test")
    keys.load()
    tokens = started(JwtMethod(ISSUER, [AUDIENCE], keys))
    assert identify(tokens, sign()) == BILLING

    document[0] = key_set(jwk(rsa_key(1), kid="second"))
    keys.load()

    assert "no key" in reason_for(tokens, sign())
    assert identify(tokens, sign(rsa_key(1), headers={"kid": "second"})) == BILLING


# Attacks on the signature (RFC 8725, 2 and 3).


def public_pem() -> bytes:
    return rsa_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def signed_with_hmac(secret: bytes, algorithm: str = "HS256", **header: Any) -> bytes:
    signed = part({"alg": algorithm, "typ": "JWT", "kid": "first"} | header) + b"." + part(claims())
    return signed + b"." + part(hmac.new(secret, signed, hashlib.sha256).digest())


@pytest.mark.parametrize("algorithm", ["none", "None", "nOnE", ""])
def test_unsigned_token_is_refused(tokens: JwtMethod, algorithm: str) -> None:
    unsigned = part({"alg": algorithm, "typ": "JWT", "kid": "first"}) + b"." + part(claims()) + b"."

    assert "no key" in reason_for(tokens, unsigned)
    assert "no key" in reason_for(tokens, unsigned + sign().rpartition(b".")[2])


@pytest.mark.parametrize(
    "secret",
    [public_pem(), public_pem().strip(), key_set(jwk(rsa_key())), b"", b"secret"],
    ids=["PEM", "PEM without the last line break", "key set", "empty", "other"],
)
def test_public_key_is_not_accepted_as_secret_of_hs256(tokens: JwtMethod, secret: bytes) -> None:
    assert "no key" in reason_for(tokens, signed_with_hmac(secret))
    assert reason_for(tokens, signed_with_hmac(secret, "RS256"))
    assert reason_for(tokens, signed_with_hmac(secret, "HS256", kid=None))


@pytest.mark.parametrize(
    "algorithm", ["HS256", "HS512", "RS384", "RS512", "PS256", "ES384", "ES512", "ES256K", "Ed448", "rs256"]
)
def test_other_algorithms_are_refused(tokens: JwtMethod, algorithm: str) -> None:
    _, _, rest = sign().partition(b".")

    assert "no key" in reason_for(tokens, part({"alg": algorithm, "kid": "first"}) + b"." + rest)


def test_key_set_with_secrets_and_other_keys_verifies_nothing_with_them() -> None:
    secret = {"kty": "oct", "kid": "first", "k": part(b"secret" * 8).decode(), "alg": "HS256"}
    tokens = tokens_of(
        key_set(secret, jwk(ec_key("P-384"), kid="p384"), jwk(rsa_key(0), kid="ps", alg="PS256"), {"kty": 1})
    )

    assert reason_for(tokens, signed_with_hmac(b"secret" * 8))
    assert reason_for(tokens, sign(ec_key("P-384"), "ES384", {"kid": "p384"}))
    assert reason_for(tokens, sign(rsa_key(0), "PS256", {"kid": "ps"}))


def test_key_is_used_for_the_algorithm_of_its_type_alone(tokens: JwtMethod) -> None:
    assert "no key" in reason_for(tokens, sign(ec_key(), "ES256", {"kid": "first"}))
    assert "no key" in reason_for(tokens, sign(rsa_key(), "RS256", {"kid": "ec"}))


@pytest.mark.parametrize(
    "members", [{"use": "enc"}, {"alg": "RS512"}, {"key_ops": ["encrypt"]}, {"key_ops": 7}, {"n": "AQAB"}, {"n": None}]
)
def test_key_for_another_purpose_is_skipped(members: dict[str, Any]) -> None:
    tokens = tokens_of(key_set(jwk(rsa_key(), kid="first") | members, jwk(ec_key(), kid="ec")))

    assert "no key" in reason_for(tokens, sign())
    assert identify(tokens, sign(ec_key(), "ES256", {"kid": "ec"})) == BILLING


def test_short_rsa_key_is_skipped() -> None:
    tokens = tokens_of(key_set(jwk(rsa_key(bits=1024), kid="first")))

    with pytest.warns(jwt.InsecureKeyLengthWarning):
        token = sign(rsa_key(bits=1024))
    assert "no key" in reason_for(tokens, token)


@pytest.mark.parametrize(
    "header",
    [
        {"jwk": jwk(rsa_key(9), kid="first")},
        {"jku": "http://127.0.0.1:1/keys"},
        {"x5u": "http://127.0.0.1:1/certificate"},
        {"x5c": ["MIIB"]},
        {"x5t": "AAAA"},
    ],
    ids=lambda header: next(iter(header)),
)
def test_keys_that_a_token_brings_are_ignored(tokens: JwtMethod, header: dict[str, Any]) -> None:
    forged = sign(rsa_key(9), headers={"kid": "first"} | header)
    honest = sign(headers={"kid": "first"} | header)

    assert "verification failed" in reason_for(tokens, forged)
    assert identify(tokens, honest) == BILLING


@pytest.mark.parametrize("kid", ["../../../dev/null", "' OR 1=1 --", "first\0", "", "a" * 5000, "http://127.0.0.1:1/"])
def test_key_id_is_compared_and_nothing_else(tokens: JwtMethod, kid: str) -> None:
    assert "no key" in reason_for(tokens, sign(headers={"kid": kid}))


@pytest.mark.parametrize("header", [{"kid": 7}, {"kid": ["first"]}, {"alg": 7}, {"typ": {}}, {"alg": None}])
def test_malformed_header_is_refused(tokens: JwtMethod, header: dict[str, Any]) -> None:
    _, _, rest = sign().partition(b".")

    assert "malformed" in reason_for(tokens, part({"alg": "RS256", "kid": "first"} | header) + b"." + rest)


def test_changed_claims_or_signature_are_refused(tokens: JwtMethod) -> None:
    header, body, signature = sign().split(b".")
    other = part(claims(sub="admin"))
    flipped = bytes([signature[0] ^ 1]) + signature[1:]
    assert identify(tokens, b".".join((header, body, signature))) == BILLING

    for token in ((header, other, signature), (header, body, flipped), (header, body, b""), (header, b"", signature)):
        assert reason_for(tokens, b".".join(token))


@pytest.mark.parametrize("header", [{"crit": ["exp"], "exp": 1}, {"crit": ["b64"], "b64": False}, {"crit": None}])
def test_extensions_that_have_to_be_understood_are_refused(tokens: JwtMethod, header: dict[str, Any]) -> None:
    raw = part({"alg": "RS256", "kid": "first"} | header)

    assert "crit" in reason_for(tokens, raw + sign()[sign().index(b".") :])


@pytest.mark.parametrize("kind", ["logout+jwt", "dpop+jwt", "secevent+jwt", "JOSE"])
def test_tokens_of_other_types_are_refused(tokens: JwtMethod, kind: str) -> None:
    assert "type" in reason_for(tokens, sign(headers={"kid": "first", "typ": kind}))
    assert identify(tokens, sign(headers={"kid": "first", "typ": "at+jwt"})) == BILLING


# Attacks on the parser.


@pytest.mark.parametrize(
    "token",
    [
        b"..",
        b"a.b.c",
        b"\xff\xfe.\xff.\xff",
        part(b"\xff\xfe") + b"." + part(b"{}") + b".",
        part([]) + b"." + part({}) + b".",
        part(b'{"alg":"RS256"') + b"." + part(b"{}") + b".",
        part({"alg": "RS256", "kid": "first"}) + b"." + part(b"[]") + b"." + part(b"x"),
        b" . . ",
    ],
)
def test_malformed_token_is_refused(tokens: JwtMethod, token: bytes) -> None:
    assert reason_for(tokens, token)


def test_oversized_token_is_refused_before_it_is_parsed(tokens: JwtMethod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(method, "_read_header", None)

    assert "8 KiB" in reason_for(tokens, sign(note="x" * 8000))
    assert "8 KiB" in reason_for(tokens, b"." + b"a" * 60_000 + b".")


@pytest.mark.parametrize("nested", [b"[" * 3000, b'{"a":' * 600, b'{"a":[' * 300 + b"]}" * 300, b'{"\\"":' + b"[" * 17])
def test_deeply_nested_token_is_refused_before_it_is_parsed(
    tokens: JwtMethod, monkeypatch: pytest.MonkeyPatch, nested: bytes
) -> None:
    header, body, signature = sign().split(b".")
    monkeypatch.setattr(jwt, "decode", None)
    monkeypatch.setattr(method, "_Header", None)

    assert "within each other" in reason_for(tokens, part(nested) + b"." + body + b"." + signature)
    assert "within each other" in reason_for(tokens, header + b"." + part(nested) + b"." + signature)


def test_brackets_in_strings_are_no_nesting(tokens: JwtMethod) -> None:
    assert identify(tokens, sign(note="[{" * 50 + '"[' * 50 + "\\")) == BILLING


@pytest.mark.parametrize(
    "filler", [b"[]" * 2900, b'["' * 16 + b"[" + b'"' * 5700, b'"' * 5800, b'\\"' * 2900, b"{" * 15 + b"1" * 5700]
)
def test_large_token_that_is_slow_to_scan_is_refused(tokens: JwtMethod, filler: bytes) -> None:
    token = part({"alg": "RS256", "kid": "first"}) + b"." + part(filler) + b"." + part(b"x" * 256)

    assert "verification failed" in reason_for(tokens, token)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["exp", "nbf", "iat", "iss", "aud", "sub", "jti", "realm", "cnf"]), VALUES))
def test_any_signed_claims_identify_a_caller_or_are_refused(changed: dict[str, Any]) -> None:
    tokens = tokens_of(caller=CallerClaims(("managed-id", "sub"), "realm"))
    try:
        assert isinstance(identify(tokens, sign(**{"realm": "users", **changed})), Caller)
    except Unauthenticated:
        pass
    finally:
        tokens.close()


@given(st.tuples(*[st.binary(max_size=100) | st.binary(max_size=60).map(part)] * 3), VALUES)
def test_any_bytes_are_refused(parts: tuple[bytes, ...], header: Any) -> None:
    tokens = tokens_of()
    for token in (b".".join(parts), b".".join([part(header), *parts[1:]])):
        try:
            assert identify(tokens, token) is None
            assert token.count(b".") != 2
        except Unauthenticated:
            pass
    tokens.close()


# Who the caller is.


@pytest.mark.parametrize(
    ("given", "caller"),
    [
        ({"realm": "/employees", "managed-id": "jane", "sub": "f3a1"}, Caller("user", "jane")),
        ({"realm": "users", "managed-id": "jane"}, Caller("user", "jane")),
        ({"realm": "services", "sub": "stups_orders"}, Caller("service", "stups_orders")),
        ({"realm": "/services", "sub": "stups_orders"}, Caller("service", "stups_orders")),
        ({"realm": "App"}, Caller("service", "billing")),
    ],
    ids=str,
)
def test_realm_says_whether_the_caller_is_a_user_or_a_service(given: dict[str, Any], caller: Caller) -> None:
    tokens = tokens_of(caller=CallerClaims(("managed-id", "sub"), "realm"))

    assert identify(tokens, sign(**given)) == caller


@pytest.mark.parametrize("realm", [None, "", "admins", 7, ["services"], "//"])
def test_token_of_an_unknown_realm_is_refused(realm: Any) -> None:
    tokens = tokens_of(caller=CallerClaims(("sub",), "realm"))

    assert "realm" in reason_for(tokens, sign(realm=realm))


def test_all_callers_can_be_users(tokens: JwtMethod) -> None:
    assert identify(tokens_of(caller=CallerClaims(("email",), "user")), sign(email="j@x.example")) == Caller(
        "user", "j@x.example"
    )


def test_first_claim_is_not_skipped_if_it_is_malformed() -> None:
    tokens = tokens_of(caller=CallerClaims(("managed-id", "sub")))

    assert "managed-id" in reason_for(tokens, sign(**{"managed-id": ""}))


def test_missing_library_is_named_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)

    with pytest.raises(RequirementMissing, match=r"penstock-hub\[jwt\]"):
        keys_of(ISSUER, "keys.json")


def test_client_is_not_told_what_is_wrong_with_its_token(tokens: JwtMethod) -> None:
    authentication = Authentication([tokens])
    scope = {**scope_of(sign()), "path": "/"}
    assert authentication.authenticate(scope) == authentication.identify_again(scope) == BILLING
    scope[CREDENTIAL] = scope_of(sign(exp=1))[CREDENTIAL]

    refusal = authentication.authenticate(scope)
    assert not isinstance(refusal, Caller)
    with pytest.raises(Unauthenticated) as at_first:
        asyncio.run(refusal)
    with pytest.raises(Unauthenticated) as later:
        authentication.identify_again(scope)
    assert not at_first.value.fields
    assert not later.value.fields


def test_hub_without_keys_is_unavailable_and_not_unauthenticated() -> None:
    def fail() -> bytes:
        raise OSError("the issuer is away")

    tokens = started(JwtMethod(ISSUER, [AUDIENCE], IssuerKeys(fail, "test")))

    with pytest.raises(HubUnavailable) as unavailable:
        identify(tokens, sign())
    assert unavailable.value.code == "keys-unavailable"
    tokens.close()
