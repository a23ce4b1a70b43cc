"""The options of `penstock serve` that say how callers are identified, and its TLS."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

import typer

if TYPE_CHECKING:
    from penstock.server.authentication.authentication import Method
    from penstock.server.http.tls import NameKind, ServerTls

METHODS: Final = ("token", "jwt", "certificate", "proxy")


def _method(given: str) -> str:
    if given not in METHODS:
        raise typer.BadParameter(f"{given!r} is not one of {', '.join(METHODS)}")
    return given


AuthMethods = Annotated[
    list[str] | None,
    typer.Option(
        "--auth",
        envvar="PENSTOCK_AUTH",
        metavar="METHOD",
        parser=_method,
        help=f"How callers identify themselves: {', '.join(METHODS)}. Repeatable; the first that fits counts.",
    ),
]
JwtIssuer = Annotated[
    str | None,
    typer.Option(
        envvar="PENSTOCK_JWT_ISSUER",
        metavar="URL",
        help="Who issues the tokens: their claim `iss`.",
    ),
]
JwtAudiences = Annotated[
    list[str] | None,
    typer.Option(
        "--jwt-audience",
        envvar="PENSTOCK_JWT_AUDIENCES",
        metavar="NAME",
        help="What the tokens call this hub: their claim `aud` has it. Repeatable.",
    ),
]
JwtKeys = Annotated[
    str | None,
    typer.Option(
        envvar="PENSTOCK_JWT_KEYS",
        metavar="URL|FILE",
        show_default="where the issuer's configuration says",
        help="The issuer's public keys, a JSON Web Key Set.",
    ),
]
JwtCallerClaims = Annotated[
    list[str] | None,
    typer.Option(
        "--jwt-caller-claim",
        envvar="PENSTOCK_JWT_CALLER_CLAIMS",
        metavar="CLAIM",
        show_default="sub",
        help="The claim that names the caller. Repeatable: the first that a token has counts.",
    ),
]
JwtCallerType = Annotated[
    str,
    typer.Option(
        envvar="PENSTOCK_JWT_CALLER_TYPE",
        metavar="service|user|CLAIM",
        help="What callers are; or the claim that says so, such as realm.",
    ),
]
CertificateCaller = Annotated[
    Literal["cn", "dns", "uri", "email"],
    typer.Option(
        envvar="PENSTOCK_CERTIFICATE_CALLER",
        help="The name in a certificate that is the caller's: the common name, or an alternative name. "
        "With email callers are users, else services.",
    ),
]
ProxyHeader = Annotated[
    str | None,
    typer.Option(
        envvar="PENSTOCK_PROXY_HEADER",
        metavar="NAME",
        help="The header in which a --trusted-proxy names the caller, such as X-Forwarded-User.",
    ),
]
ProxyCallerType = Annotated[
    Literal["service", "user"],
    typer.Option(
        envvar="PENSTOCK_PROXY_CALLER_TYPE",
        help="What the proxy names in the header.",
    ),
]
TlsCertificate = Annotated[
    Path | None,
    typer.Option(
        "--tls-cert",
        envvar="PENSTOCK_TLS_CERT",
        help="Serve HTTPS with this certificate, in PEM, followed by those that lead to its authority.",
        metavar="FILE",
    ),
]
TlsKey = Annotated[
    Path | None,
    typer.Option("--tls-key", envvar="PENSTOCK_TLS_KEY", help="The certificate's private key, in PEM.", metavar="FILE"),
]
TlsClientCa = Annotated[
    Path | None,
    typer.Option(
        "--tls-client-ca",
        envvar="PENSTOCK_TLS_CLIENT_CA",
        help="The authorities that sign certificates of clients, in PEM.",
        metavar="FILE",
    ),
]


class JwtOptions(NamedTuple):
    """Options of JSON Web Tokens."""

    issuer: str | None = None
    audiences: Sequence[str] = ()
    keys: str | None = None
    caller_claims: Sequence[str] = ()
    caller_type: str = "service"


class ProxyOptions(NamedTuple):
    """Options of a proxy that authenticates."""

    header: str | None = None
    caller_type: Literal["service", "user"] = "user"
    trusted: Sequence[str] = ()


class TlsOptions(NamedTuple):
    """Options of TLS."""

    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None


class AuthenticationOptions(NamedTuple):
    """The options as they are given."""

    methods: Sequence[str] = ()
    jwt: JwtOptions = JwtOptions()
    certificate_caller: "NameKind" = "cn"
    proxy: ProxyOptions = ProxyOptions()
    tls: TlsOptions = TlsOptions()

    def check(self) -> None:
        """Raise BadParameter if an option needs another one that is not given."""
        by_jwt, by_certificate, by_proxy = (name in self.methods for name in ("jwt", "certificate", "proxy"))
        jwt, proxy, tls = self.jwt, self.proxy, self.tls
        needs: tuple[tuple[str, object, str, object], ...] = (
            ("--auth jwt", by_jwt, "--jwt-issuer", jwt.issuer),
            ("--auth jwt", by_jwt, "--jwt-audience", jwt.audiences),
            ("--jwt-issuer", jwt.issuer, "--auth jwt", by_jwt),
            ("--jwt-audience", jwt.audiences, "--auth jwt", by_jwt),
            ("--jwt-keys", jwt.keys, "--auth jwt", by_jwt),
            ("--jwt-caller-claim", jwt.caller_claims, "--auth jwt", by_jwt),
            ("--auth certificate", by_certificate, "--tls-client-ca", tls.client_ca),
            ("--tls-client-ca", tls.client_ca, "--auth certificate", by_certificate),
            ("--tls-client-ca", tls.client_ca, "--tls-cert", tls.certificate),
            ("--tls-cert", tls.certificate, "--tls-key", tls.key),
            ("--tls-key", tls.key, "--tls-cert", tls.certificate),
            ("--auth proxy", by_proxy, "--proxy-header", proxy.header),
            ("--auth proxy", by_proxy, "--trusted-proxy", proxy.trusted),
            ("--proxy-header", proxy.header, "--auth proxy", by_proxy),
        )
        for name, is_given, needed, is_there in needs:
            if is_given and not is_there:
                raise typer.BadParameter(f"{name} needs {needed} as well")


def make_methods(options: AuthenticationOptions) -> "list[Method]":
    """Return the methods of authentication, in the order in which they are given.

    Raises:
        CommandFailure: the keys of JSON Web Tokens can never be read so.
        BadParameter: an option has a value that cannot be used.
        RequirementMissing: a library is not installed.
    """
    makers: Mapping[str, Callable[[AuthenticationOptions], Method]] = {
        "token": _make_token_method,
        "jwt": _make_jwt_method,
        "certificate": _make_certificate_method,
        "proxy": _make_proxy_method,
    }
    return [makers[name](options) for name in dict.fromkeys(options.methods)]


def open_tls(options: AuthenticationOptions) -> "ServerTls | None":
    """Return the server's TLS; None for plain HTTP.

    Raises:
        CommandFailure: its files cannot be used.
    """
    if options.tls.certificate is None or options.tls.key is None:
        return None
    from penstock.cli.failures import CommandFailure
    from penstock.server.http.tls import ServerTls, TlsFiles, TlsFilesUnusable

    try:
        return ServerTls(TlsFiles(options.tls.certificate, options.tls.key, options.tls.client_ca))
    except TlsFilesUnusable as error:
        raise CommandFailure(str(error), error.hint) from error


def _make_token_method(_: AuthenticationOptions) -> "Method":
    from penstock.server.authentication.tokens import TokenMethod

    return TokenMethod()


def _make_jwt_method(options: AuthenticationOptions) -> "Method":
    from penstock.cli.failures import CommandFailure
    from penstock.server.authentication.issuer_keys import keys_of
    from penstock.server.authentication.jwt import CallerClaims, JwtMethod

    assert options.jwt.issuer is not None
    try:
        keys = keys_of(options.jwt.issuer, options.jwt.keys)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if options.jwt.keys is not None and "://" not in options.jwt.keys:
        keys.load()
        if keys.failure is not None:
            raise CommandFailure(
                f"--jwt-keys {options.jwt.keys}: {keys.failure}", "Name a JSON Web Key Set (RFC 7517) of public keys."
            )
    claims = CallerClaims(options.jwt.caller_claims or ("sub",), options.jwt.caller_type)
    return JwtMethod(options.jwt.issuer, options.jwt.audiences, keys, claims)


def _make_certificate_method(options: AuthenticationOptions) -> "Method":
    from penstock.server.authentication.certificates import CertificateMethod

    return CertificateMethod(options.certificate_caller)


def _make_proxy_method(options: AuthenticationOptions) -> "Method":
    from penstock.server.authentication.proxy_header import ProxyHeaderMethod

    assert options.proxy.header is not None
    try:
        return ProxyHeaderMethod(options.proxy.header, options.proxy.caller_type, options.proxy.trusted)
    except ValueError as error:
        raise typer.BadParameter(f"--proxy-header: {error}; give one such as X-Forwarded-User") from None
