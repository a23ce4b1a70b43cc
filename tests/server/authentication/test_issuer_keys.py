"""An issuer's keys: loaded, rotated, kept while the issuer is away, and never from anybody else."""

import asyncio
import inspect
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.core.access import Caller
from penstock.errors import HubUnavailable, Unauthenticated
from penstock.server.authentication import issuer_keys, jwt
from penstock.server.authentication.authentication import Authentication
from penstock.server.authentication.issuer_keys import (
    DOCUMENT_BYTES_MAX,
    KEPT_SECONDS_MAX,
    RETRY_INTERVAL,
    IssuerKeys,
    KeysUnavailable,
    keys_of,
    parse_keys,
)
from penstock.server.authentication.jwt import JwtMethod
from tests.server.authentication.issuer import (
    AUDIENCE,
    ISSUER,
    Issuer,
    ec_key,
    jwk,
    key_set,
    rsa_key,
    scope_of,
    serving,
    sign,
    started,
)

BILLING = Caller("service", "billing")
FIRST = key_set(jwk(rsa_key(), kid="first"))
BOTH = key_set(jwk(rsa_key(), kid="first"), jwk(rsa_key(1), kid="second"))


def sign_by_second() -> bytes:
    return sign(rsa_key(1), headers={"kid": "second"})


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with serving() as found:
        yield found


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def tokens_with(keys: IssuerKeys) -> JwtMethod:
    return started(JwtMethod(ISSUER, [AUDIENCE], keys))


def identify(tokens: JwtMethod, token: bytes) -> Caller | None:
    async def run() -> Caller | None:
        found = tokens.identify(scope_of(token))
        return found if found is None or isinstance(found, Caller) else await found

    return asyncio.run(run())


def failure_of(keys: IssuerKeys) -> str:
    keys.load()
    assert keys.failure is not None
    return keys.failure


def wait_until(condition: Callable[[], Any]) -> None:
    while not condition():
        time.sleep(0.005)


def test_keys_are_loaded_from_an_address(issuer: Issuer) -> None:
    tokens = tokens_with(keys_of(ISSUER, f"{issuer.url}/keys"))

    assert identify(tokens, sign()) == BILLING
    assert issuer.paths == ["/keys"]
    tokens.close()


def test_keys_are_found_by_the_issuers_configuration(issuer: Issuer) -> None:
    keys = keys_of(issuer.url, None)
    tokens = started(JwtMethod(issuer.url, [AUDIENCE], keys))

    assert identify(tokens, sign(iss=issuer.url)) == BILLING
    assert issuer.paths == ["/.well-known/openid-configuration", "/keys"]
    tokens.close()


def test_configuration_of_another_issuer_is_refused(issuer: Issuer) -> None:
    issuer.configuration = {"issuer": "https://evil.example", "jwks_uri": f"{issuer.url}/keys"}

    assert "evil.example" in failure_of(keys_of(issuer.url, None))


@pytest.mark.parametrize("address", ["http://keys.example/", "file:///etc/passwd", "ftp://127.0.0.1/", "/keys", ""])
def test_configuration_with_an_insecure_address_of_keys_is_refused(issuer: Issuer, address: str) -> None:
    issuer.configuration = {"issuer": issuer.url, "jwks_uri": address}

    assert "must be https" in failure_of(keys_of(issuer.url, None))


@pytest.mark.parametrize(
    "address", ["http://login.example/keys", "http://10.0.0.1/keys", "ftp://localhost/keys", "https://u:p@x.example/"]
)
def test_insecure_address_is_refused_at_once(address: str) -> None:
    with pytest.raises(ValueError, match="must be https"):
        keys_of(ISSUER, address)
    with pytest.raises(ValueError, match="must be https"):
        keys_of(address, None)


def test_keys_are_read_from_a_file_and_again_after_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    keys = keys_of(ISSUER, str(path))
    assert "cannot be read" in failure_of(keys)

    path.write_bytes(FIRST)
    keys.load()
    assert keys.failure is None
    assert keys.current is not None
    assert len(keys.current.find("first", "RS256")) == 1

    path.write_bytes(BOTH)
    keys.load()
    assert len(keys.current.find("second", "RS256")) == 1


def test_same_document_keeps_the_keys_and_what_was_verified_with_them() -> None:
    keys = IssuerKeys(lambda: FIRST, "test")
    keys.load()
    before = keys.current

    keys.load()

    assert keys.current is before


def test_keys_stay_valid_while_the_issuer_is_away_for_a_day(issuer: Issuer, clock: Clock) -> None:
    keys = keys_of(ISSUER, f"{issuer.url}/keys")
    keys._monotonic, keys._made_at = clock, clock()
    keys.load()
    issuer.status = 503

    clock.now += KEPT_SECONDS_MAX - 1
    assert "503" in failure_of(keys)
    assert keys.current is not None
    assert Authentication([JwtMethod(ISSUER, [AUDIENCE], keys)]).measure_keys_age() == KEPT_SECONDS_MAX - 1

    clock.now += 2
    keys.load()
    assert keys.current is None

    issuer.status = 200
    keys.load()
    assert keys.current is not None


def test_malformed_answer_keeps_the_keys_that_were_valid(issuer: Issuer) -> None:
    keys = keys_of(ISSUER, f"{issuer.url}/keys")
    keys.load()

    for document in (
        b"",
        b"<html>",
        b"{}",
        b"[]",
        b'{"keys":7}',
        b'{"keys":' + b"[" * 100_000,
        b"\xff",
        b'{"keys":[7]}',
    ):
        issuer.document = document
        assert failure_of(keys)
        assert keys.current is not None

    issuer.document = FIRST
    keys.load()
    assert keys.failure is None


def test_issuer_that_withdraws_all_keys_is_heeded() -> None:
    document = [FIRST]
    keys = IssuerKeys(lambda: document[0], "test")
    keys.load()

    document[0] = key_set()
    keys.load()

    assert keys.current is not None
    assert not keys.current.find("first", "RS256")


def test_unknown_key_id_loads_the_keys_once(issuer: Issuer) -> None:
    keys = IssuerKeys(issuer_keys.keys_of(ISSUER, f"{issuer.url}/keys")._load, "test", monotonic=(clock := Clock()))
    tokens = tokens_with(keys)
    assert identify(tokens, sign()) == BILLING
    issuer.document = BOTH

    with pytest.raises(Unauthenticated):
        identify(tokens, sign_by_second())
    assert len(issuer.paths) == 1, "they were loaded a moment ago"

    clock.now += RETRY_INTERVAL
    assert identify(tokens, sign_by_second()) == BILLING
    assert len(issuer.paths) == 2

    for _ in range(20):
        with pytest.raises(Unauthenticated):
            identify(tokens, sign(headers={"kid": "third"}))
    assert len(issuer.paths) == 2
    tokens.close()


def test_requests_with_unknown_keys_share_one_load(issuer: Issuer) -> None:
    issuer.delay = 0.1
    tokens = tokens_with(keys_of(ISSUER, f"{issuer.url}/keys"))

    scopes = [scope_of(sign(sub=f"caller-{number}")) for number in range(50)]

    async def ask(scope: Any) -> Any:
        found = tokens.identify(scope)
        return await found if inspect.isawaitable(found) else found

    async def run() -> list[Any]:
        return await asyncio.gather(*map(ask, scopes))

    assert [each.value for each in asyncio.run(run())] == [f"caller-{number}" for number in range(50)]
    assert len(issuer.paths) == 1
    tokens.close()


def test_event_loop_goes_on_while_keys_are_loaded(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwt, "KEYS_TIMEOUT", 0.2)
    issuer.delay = 1
    tokens = tokens_with(keys_of(ISSUER, f"{issuer.url}/keys"))
    turns = 0

    async def run() -> None:
        nonlocal turns
        waiting = asyncio.ensure_future(tokens.identify(scope_of(sign())))
        while not waiting.done():
            turns += 1
            await asyncio.sleep(0.01)
        await waiting

    with pytest.raises(HubUnavailable):
        asyncio.run(run())
    assert turns > 3
    tokens.close()


def test_known_keys_are_used_without_waiting_for_a_slow_issuer(issuer: Issuer) -> None:
    keys = keys_of(ISSUER, f"{issuer.url}/keys")
    keys.load()
    issuer.delay = 1
    tokens = tokens_with(keys)

    assert tokens.identify(scope_of(sign())) == BILLING
    tokens.close()


def test_token_with_unknown_key_is_not_blamed_while_the_issuer_is_away(issuer: Issuer) -> None:
    keys = keys_of(ISSUER, f"{issuer.url}/keys")
    keys.load()
    issuer.status = 500
    tokens = tokens_with(keys)

    with pytest.raises(HubUnavailable):
        identify(tokens, sign_by_second())
    assert identify(tokens, sign()) == BILLING
    tokens.close()


@pytest.mark.parametrize("location", ["http://169.254.169.254/", "file:///etc/passwd", "ftp://x/", "/other", "//x/"])
def test_redirects_are_not_followed(issuer: Issuer, location: str) -> None:
    issuer.status, issuer.headers = 302, {"Location": location}

    assert "redirects are not followed" in failure_of(keys_of(ISSUER, f"{issuer.url}/keys"))
    assert len(issuer.paths) == 1


def test_endless_answer_is_cut_by_its_size(issuer: Issuer) -> None:
    issuer.document = b" " * (DOCUMENT_BYTES_MAX * 4)

    assert "KiB" in failure_of(keys_of(ISSUER, f"{issuer.url}/keys"))


def test_compressed_answer_is_refused(issuer: Issuer) -> None:
    issuer.headers = {"Content-Encoding": "gzip"}

    assert "encoding" in failure_of(keys_of(ISSUER, f"{issuer.url}/keys"))


@pytest.mark.parametrize("slow", ["delay", "drip"])
def test_slow_answer_is_cut_by_its_time(issuer: Issuer, monkeypatch: pytest.MonkeyPatch, slow: str) -> None:
    monkeypatch.setattr(issuer_keys, "LOAD_TIMEOUT", 0.3)
    setattr(issuer, slow, 1.0 if slow == "delay" else 0.02)

    assert "0.3 s" in failure_of(keys_of(ISSUER, f"{issuer.url}/keys"))


def test_issuer_that_is_away_is_named_with_the_reason() -> None:
    assert "cannot be read" in failure_of(keys_of(ISSUER, "http://127.0.0.1:1/keys"))


def test_too_many_keys_are_refused() -> None:
    with pytest.raises(KeysUnavailable, match="101 keys"):
        parse_keys(key_set(*[{"kty": "oct"}] * 101))


def test_private_key_in_the_set_is_read_as_public_key() -> None:
    private: dict[str, Any] = {"d": "AAAA", "p": "AAAA", "q": "AAAA"}

    (_, _, key), *_ = parse_keys(key_set(jwk(rsa_key(), kid="first") | private)).keys

    assert not hasattr(key.key, "private_numbers")


@pytest.mark.parametrize(
    "secret",
    [
        key_set(jwk(rsa_key(), kid="first"), jwk(rsa_key(1), kid="second", d="AAAA")),
        key_set({"kty": "oct", "k": "AAAA"}),
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    ],
    ids=["private", "symmetric", "PEM"],
)
def test_file_with_a_private_key_is_refused_and_the_keys_before_stay(tmp_path: Path, secret: bytes) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(key_set(jwk(rsa_key(), kid="first")))
    keys = keys_of(ISSUER, str(file))
    keys.load()
    before = keys.current
    file.write_bytes(secret)
    keys.load()

    assert keys.failure == "it has private keys, which a hub never needs: export the public part alone"
    assert keys.current is before


def test_key_on_no_point_of_its_curve_is_skipped() -> None:
    off = jwk(ec_key(), kid="ec")
    off["y"] = off["x"]

    assert not parse_keys(json.dumps({"keys": [off]}).encode()).keys


def test_keys_are_loaded_again_in_the_background_and_until_closed() -> None:
    loads = threading.Semaphore(0)
    document = [FIRST]

    def load() -> bytes:
        loads.release()
        return document[0]

    keys = IssuerKeys(load, "test", interval=0.01)
    keys.start(lambda: None)
    for _ in range(3):
        assert loads.acquire(timeout=300)
    document[0] = BOTH
    wait_until(lambda: keys.current is not None and keys.current.find("second", "RS256"))

    keys.close()

    assert keys._thread is not None
    keys._thread.join(300)
    assert not keys._thread.is_alive()


def test_keys_are_loaded_again_after_any_failure() -> None:
    answers: list[Any] = [RecursionError("deep"), KeysUnavailable("away"), OSError("lost"), FIRST]

    def load() -> bytes:
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(found, Exception):
            raise found
        return bytes(found)

    keys = IssuerKeys(load, "test", interval=0.01)
    keys.start(lambda: None)

    wait_until(lambda: keys.current is not None)
    wait_until(lambda: keys.failure is None)
    keys.close()
