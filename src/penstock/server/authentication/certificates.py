"""Client certificates: the certificate of a TLS connection names the caller."""

import time
from collections.abc import Callable

from starlette.types import Scope

from penstock.core.access import Caller, is_caller_name
from penstock.errors import Unauthenticated
from penstock.hub.hub import Hub
from penstock.server.http.tls import CLIENT_CERTIFICATE, ClientCertificate, NameKind


class CertificateMethod:
    """Identifies callers by the certificates that the authorities of `penstock serve --tls-client-ca` have signed.

    *kind* is the name of a certificate that is the caller's. An email address is that of a user, other names are those
    of services. A certificate needs exactly one name of this kind.
    """

    name = "certificate"

    def __init__(self, kind: NameKind = "cn", clock: Callable[[], float] = time.time) -> None:
        self._kind = kind
        self._clock = clock

    def start(self, _: Hub) -> None:
        """Do nothing: the certificate is that of the connection."""

    def identify(self, scope: Scope) -> Caller | None:
        """Return the caller whom the certificate of a connection names; None if the client has sent none.

        Raises:
            Unauthenticated: it has expired since the connection was made, or it names no caller.
        """
        certificate: ClientCertificate | None = scope.get("extensions", {}).get(CLIENT_CERTIFICATE)
        if certificate is None:
            return None
        if self._clock() >= certificate.expires_at:
            raise Unauthenticated(reason="the client certificate has expired")
        names = certificate.names.get(self._kind, ())
        if len(names) != 1:
            raise Unauthenticated(reason=f"the client certificate has {len(names)} names of kind {self._kind}, not one")
        if not is_caller_name(names[0]):
            raise Unauthenticated(reason=f"{names[0][:80]!r} in the client certificate is no name of a caller")
        return Caller("user" if self._kind == "email" else "service", names[0])

    def close(self) -> None:
        """Do nothing: there are no resources to release."""
