"""Client certificates: which name of them is the caller's."""

from typing import Any

import pytest

from penstock.core.access import Caller
from penstock.errors import Unauthenticated
from penstock.server.authentication.certificates import CertificateMethod
from penstock.server.http.tls import CLIENT_CERTIFICATE, ClientCertificate, NameKind

EXPIRES_AT = 1_800_000_000.0
NAMES: dict[NameKind, tuple[str, ...]] = {
    "cn": ("billing",),
    "dns": ("billing.example",),
    "uri": ("spiffe://example/billing",),
    "email": ("jane@x.example",),
}


def scope_of(names: dict[NameKind, tuple[str, ...]]) -> dict[str, Any]:
    return {"type": "http", "headers": [], "extensions": {CLIENT_CERTIFICATE: ClientCertificate(names, EXPIRES_AT)}}


def method_in_time(kind: NameKind = "cn") -> CertificateMethod:
    """Return a method whose clock stands before the certificate expires, however long the tests have run."""
    return CertificateMethod(kind, clock=lambda: EXPIRES_AT - 1)


@pytest.mark.parametrize(
    ("kind", "caller"),
    [
        ("cn", Caller("service", "billing")),
        ("dns", Caller("service", "billing.example")),
        ("uri", Caller("service", "spiffe://example/billing")),
        ("email", Caller("user", "jane@x.example")),
    ],
)
def test_name_of_the_chosen_kind_is_the_callers(kind: NameKind, caller: Caller) -> None:
    assert method_in_time(kind).identify(scope_of(NAMES)) == caller


def test_connection_without_certificate_has_no_credential() -> None:
    assert CertificateMethod().identify({"type": "http", "headers": [], "extensions": {}}) is None
    assert CertificateMethod().identify({"type": "http", "headers": []}) is None


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ({}, "has 0 names of kind cn"),
        ({"cn": ("a", "b")}, "has 2 names of kind cn"),
        ({"cn": ("*",)}, "is no name of a caller"),
        ({"cn": ("a\0b",)}, "is no name of a caller"),
        ({"cn": ("",)}, "is no name of a caller"),
    ],
)
def test_certificate_that_names_no_caller_is_refused(names: dict[NameKind, tuple[str, ...]], reason: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        method_in_time().identify(scope_of(names | {"dns": ("billing.example",)}))
    assert reason in (refused.value.reason or "")


def test_certificate_that_expires_while_its_connection_lasts_is_refused() -> None:
    now = [EXPIRES_AT - 1]
    method = CertificateMethod(clock=lambda: now[0])
    assert method.identify(scope_of(NAMES)) == Caller("service", "billing")

    now[0] = EXPIRES_AT

    with pytest.raises(Unauthenticated):
        method.identify(scope_of(NAMES))
