"""Client certificates: which name of them is the caller's."""

import time
from typing import Any

import pytest

from penstock.core.access import Caller
from penstock.errors import Unauthenticated
from penstock.server.authentication.certificates import CertificateMethod
from penstock.server.http.tls import CLIENT_CERTIFICATE, ClientCertificate, NameKind

LATER = time.time() + 3600
NAMES: dict[NameKind, tuple[str, ...]] = {
    "cn": ("billing",),
    "dns": ("billing.example",),
    "uri": ("spiffe://example/billing",),
    "email": ("jane@x.example",),
}


def scope_of(names: dict[NameKind, tuple[str, ...]], expires_at: float = LATER) -> dict[str, Any]:
    return {"type": "http", "headers": [], "extensions": {CLIENT_CERTIFICATE: ClientCertificate(names, expires_at)}}


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
    assert CertificateMethod(kind).identify(scope_of(NAMES)) == caller


def test_connection_without_certificate_has_no_credential() -> None:
    assert CertificateMethod().identify({"type": "http", "headers": [], "extensions": {}}) is None
    assert CertificateMethod().identify({"type": "http", "headers": []}) is None


@pytest.mark.parametrize("names", [{}, {"cn": ("a", "b")}, {"cn": ("*",)}, {"cn": ("a\0b",)}, {"cn": ("",)}])
def test_certificate_that_names_no_caller_is_refused(names: dict[NameKind, tuple[str, ...]]) -> None:
    with pytest.raises(Unauthenticated):
        CertificateMethod().identify(scope_of(names | {"dns": ("billing.example",)}))


def test_certificate_that_expires_while_its_connection_lasts_is_refused() -> None:
    now = [LATER - 1]
    method = CertificateMethod(clock=lambda: now[0])
    assert method.identify(scope_of(NAMES)) == Caller("service", "billing")

    now[0] = LATER

    with pytest.raises(Unauthenticated):
        method.identify(scope_of(NAMES))
