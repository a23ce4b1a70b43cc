"""`penstock serve`: a hub in this process."""

import ctypes
import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple, Self

import typer

from penstock.cli import authentication
from penstock.cli.options import DATABASE, DatabaseOption, duration_parser, member_parser

if TYPE_CHECKING:
    from penstock.core.registry.definition import Limits
    from penstock.hub.hub import Hub
    from penstock.server.http.tls import ServerTls
    from penstock.server.limits import UsageLimits

SWITCH_SECONDS: Final = 0.0005
"""A thread that waits for the interpreter gets it after this time. The committer waits for it a dozen times a
transaction, while the event loop is busy with the next requests; Python's 5 ms would add up."""
MIGRATE_BEFORE: Final = (
    "Run `penstock migrate` as a role that owns the tables, then serve with --no-migrate. Or name such a role "
    "in --database."
)
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "text", "json"]
AccessLog = Annotated[
    Literal["all", "failed", "off"],
    typer.Option(envvar="PENSTOCK_ACCESS_LOG", help="Which requests have a line in the log, at level info."),
]
Migrate = Annotated[
    bool, typer.Option("--migrate/--no-migrate", envvar="PENSTOCK_MIGRATE", help="Bring the tables up to date first.")
]
StreamBytes = Annotated[
    int,
    typer.Option(
        envvar="PENSTOCK_STREAM_BYTES",
        min=1,
        metavar="BYTES",
        help="How many bytes of events that are not sent yet a stream of batches may hold.",
    ),
]
ProducerTtl = Annotated[
    float,
    typer.Option(
        envvar="PENSTOCK_PRODUCER_TTL",
        parser=duration_parser(240),
        metavar="DURATION",
        show_default="7d",
        help="How long the hub remembers an idempotent producer that sends nothing.",
    ),
]
CacheTtl = Annotated[
    float,
    typer.Option(
        envvar="PENSTOCK_CACHE_TTL",
        parser=duration_parser(0),
        metavar="DURATION",
        show_default="1h",
        help="How long HTTP caches may keep pages of events that will not change; 0s: not at all.",
    ),
]
HeaderTimeout = Annotated[
    float,
    typer.Option(
        envvar="PENSTOCK_HEADER_TIMEOUT",
        parser=duration_parser(0.1),
        metavar="DURATION",
        show_default="30s",
        help="How long a client may take to send the head of a request.",
    ),
]
BodyTimeout = Annotated[
    float,
    typer.Option(
        envvar="PENSTOCK_BODY_TIMEOUT",
        parser=duration_parser(0.1),
        metavar="DURATION",
        show_default="30s",
        help="How long a client may take to send a body, plus a second for each KiB of it.",
    ),
]


def _network(given: str) -> str:
    try:
        ip_network(given)
    except ValueError as error:
        raise typer.BadParameter(
            f"{error}; give an address such as 10.0.0.7, or a network such as 10.0.0.0/8"
        ) from None
    return given


def _age(given: object) -> float:
    return float("inf") if given == "never" else duration_parser(0)(given)


Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure",
        envvar="PENSTOCK_INSECURE",
        help="Listen on any address, under any name, without authentication: whoever connects may do everything.",
    ),
]


Console = Annotated[
    bool | None,
    typer.Option(
        "--console/--no-console",
        envvar="PENSTOCK_CONSOLE",
        show_default="on loopback or with --auth",
        help="Serve the console for browsers at /console.",
    ),
]
Administrators = Annotated[
    list[str] | None,
    typer.Option(
        "--admin",
        envvar="PENSTOCK_ADMINS",
        metavar="TYPE:NAME",
        parser=member_parser(),
        help="An administrator of the hub, such as user:jane, besides those in its settings. Repeatable.",
    ),
]
DefaultAccess = Annotated[
    Literal["open", "closed"],
    typer.Option(
        envvar="PENSTOCK_DEFAULT_ACCESS",
        help="Who may use an event type without an `authorization`: all callers, or its owner and administrators.",
    ),
]
TrustedProxies = Annotated[
    list[str] | None,
    typer.Option(
        "--trusted-proxy",
        envvar="PENSTOCK_TRUSTED_PROXIES",
        metavar="ADDRESS",
        parser=_network,
        help="A proxy, or a network of them, whose forwarding headers say where clients are. Repeatable.",
    ),
]


HostNames = Annotated[
    list[str] | None,
    typer.Option(
        "--host-name",
        envvar="PENSTOCK_HOST_NAMES",
        metavar="NAME",
        help="A name under which clients ask: no other is answered, besides addresses and localhost. Repeatable.",
    ),
]


def _origin(given: str) -> str:
    from penstock.server.http.cors import check_origin

    try:
        return check_origin(given)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


CorsOrigins = Annotated[
    list[str] | None,
    typer.Option(
        "--cors-origin",
        envvar="PENSTOCK_CORS_ORIGINS",
        metavar="ORIGIN",
        parser=_origin,
        help="An origin, such as https://app.example, whose pages may use the hub in a browser. Repeatable.",
    ),
]


def _limit(given: str) -> str:
    from penstock.server.limits import UsageLimits

    try:
        UsageLimits().replace([given])
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return given


UsageLimitOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        envvar="PENSTOCK_LIMITS",
        metavar="NAME=VALUE",
        parser=_limit,
        help="How much a caller may use: connections, streams, bytes-held, and per second requests, bytes-in, "
        "bytes-out; with total- before it all callers together. Repeatable.",
    ),
]


ColdTierUrl = Annotated[
    str | None,
    typer.Option(
        "--cold",
        envvar="PENSTOCK_COLD",
        metavar="URL",
        help="Where old events go as Parquet files, file:///DIRECTORY or s3://BUCKET/PREFIX.",
    ),
]
ColdAfter = Annotated[
    float,
    typer.Option(
        "--cold-after",
        envvar="PENSTOCK_COLD_AFTER",
        parser=_age,
        metavar="DURATION",
        show_default="1d",
        help="The age at which events go there, such as 12h; never: none do, those that are there can be read.",
    ),
]
ColdColumns = Annotated[
    Literal["typed", "json"],
    typer.Option(
        "--cold-columns",
        envvar="PENSTOCK_COLD_COLUMNS",
        help="typed: files have the members of events as columns, beside their JSON; json: without them.",
    ),
]
ColdTables = Annotated[
    Literal["none", "delta"],
    typer.Option(
        "--cold-tables",
        envvar="PENSTOCK_COLD_TABLES",
        help="delta: the files of each event type are a Delta table too, whose log lies beside them.",
    ),
]
ReplicaUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--replica",
        envvar="PENSTOCK_REPLICAS",
        metavar="URL",
        help="A standby of a PostgreSQL database, which serves the events that it has replayed. Repeatable.",
    ),
]


def serve(
    *,
    database: DatabaseOption = DATABASE,
    replica: ReplicaUrls = None,
    cold: ColdTierUrl = None,
    cold_after: ColdAfter = 86_400.0,
    cold_columns: ColdColumns = "typed",
    cold_tables: ColdTables = "none",
    host: Annotated[str, typer.Option(envvar="PENSTOCK_HOST", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            envvar="PENSTOCK_PORT", min=0, max=65535, metavar="PORT", help="The port to listen on; 0: any that is free."
        ),
    ] = 8080,
    migrate: Migrate = True,
    stream_bytes: StreamBytes = 50_000_000,
    producer_ttl: ProducerTtl = 604_800.0,
    cache_ttl: CacheTtl = 3_600.0,
    header_timeout: HeaderTimeout = 30.0,
    body_timeout: BodyTimeout = 30.0,
    log_level: Annotated[LogLevel, typer.Option(envvar="PENSTOCK_LOG_LEVEL", help="What is logged.")] = "info",
    log_format: Annotated[
        LogFormat, typer.Option(envvar="PENSTOCK_LOG_FORMAT", help="auto: text on a terminal, JSON lines otherwise.")
    ] = "auto",
    access_log: AccessLog = "all",
    nakadi_strict: Annotated[
        bool,
        typer.Option(
            "--nakadi-strict", envvar="PENSTOCK_NAKADI_STRICT", help="Keep to Nakadi's limits and to its problems."
        ),
    ] = False,
    guidelines: Annotated[
        Literal["warn", "refuse"],
        typer.Option(
            envvar="PENSTOCK_GUIDELINES",
            help="What becomes of event types that break a MUST of the event guidelines: see `event-type check`.",
        ),
    ] = "warn",
    auth: authentication.AuthMethods = None,
    insecure: Insecure = False,
    console: Console = None,
    admin: Administrators = None,
    default_access: DefaultAccess = "open",
    trusted_proxy: TrustedProxies = None,
    host_name: HostNames = None,
    cors_origin: CorsOrigins = None,
    jwt_issuer: authentication.JwtIssuer = None,
    jwt_audience: authentication.JwtAudiences = None,
    jwt_keys: authentication.JwtKeys = None,
    jwt_caller_claim: authentication.JwtCallerClaims = None,
    jwt_caller_type: authentication.JwtCallerType = "service",
    certificate_caller: authentication.CertificateCaller = "cn",
    proxy_header: authentication.ProxyHeader = None,
    proxy_caller_type: authentication.ProxyCallerType = "user",
    limit: UsageLimitOptions = None,
    tls_cert: authentication.TlsCertificate = None,
    tls_key: authentication.TlsKey = None,
    tls_client_ca: authentication.TlsClientCa = None,
    while_stdin: Annotated[
        bool, typer.Option("--while-stdin", help="Stop when standard input ends: for programs that start a hub.")
    ] = False,
) -> None:
    """Serve the hub over HTTP until told to stop.

    SIGTERM and Ctrl-C drain it: waits end at once, requests under way finish, within ten seconds in all. Any number of
    hubs can serve one database.

    On loopback callers are not authenticated, unless --auth is given. On another address the hub starts only with
    --auth, or --insecure.
    """
    from penstock.cli import listening, logs
    from penstock.cli.database import is_new
    from penstock.core.registry.definition import limits_of
    from penstock.server import HubApp

    options = authentication.AuthenticationOptions(
        auth or (),
        authentication.JwtOptions(jwt_issuer, jwt_audience or (), jwt_keys, jwt_caller_claim or (), jwt_caller_type),
        certificate_caller,
        authentication.ProxyOptions(proxy_header, proxy_caller_type, trusted_proxy or ()),
        authentication.TlsOptions(tls_cert, tls_key, tls_client_ca),
    )
    options.check()
    storage = StorageOptions(database, cold, cold_after, cold_columns, cold_tables, replica or ()).check_cold_options()
    _check_limits(limit or ())
    _check_access(host, auth, insecure=insecure, admin=admin, default_access=default_access)
    as_json = logs.is_json(log_format)
    handler, listener = logs.configure(log_level, as_json=as_json), listening.bind(host, port)
    with listener, logs.open_access_log(access_log, log_level, handler, as_json=as_json) as log_access:
        tune_process()
        created, methods, tls = is_new(database), authentication.make_methods(options), authentication.open_tls(options)
        limits = limits_of(
            nakadi_strict=nakadi_strict, refuses_by_guidelines=guidelines == "refuse", stream_bytes_max=stream_bytes
        )
        hub = start(storage, migrate, limits, producer_ttl)
        if while_stdin:
            listening.stop_with_stdin()
        url = _url(host, listener.getsockname()[1], tls)
        has_console = bool(auth) or is_loopback(host) if console is None else console
        served = _Served(url, hub.store.url, created, [*_find_warnings(host, options, tls, hub)], has_console)
        listening.serve(
            HubApp(
                lambda: hub,
                nakadi_strict=nakadi_strict,
                authentication=methods,
                administrators=admin or (),
                default_access=default_access,
                is_local=is_loopback(host) and not insecure and (not auth or "proxy" in auth),
                host_names=host_name or (),
                cors_origins=cors_origin or (),
                trusted_proxies=trusted_proxy or (),
                limits=usage_limits(limit or (), is_open=not auth and is_loopback(host)),
                access_log=log_access,
                cache_ttl_seconds=cache_ttl,
                console=has_console,
            ),
            listener,
            lambda: _announce(served, as_json=as_json),
            header_timeout=header_timeout,
            body_timeout=body_timeout,
            tls=tls,
        )


class StorageOptions(NamedTuple):
    """Where the events of a hub are."""

    database: str
    cold: str | None = None
    """The URL of its cold tier."""
    cold_after: float = 86_400.0
    """The age at which events go there, in seconds; infinite: none do."""
    cold_columns: Literal["typed", "json"] = "typed"
    cold_tables: Literal["none", "delta"] = "none"
    replicas: Sequence[str] = ()
    """The URLs of standbys of the database."""

    def check_cold_options(self) -> Self:
        """Return it; raise BadParameter if an option needs a cold tier that is not given, as never to seal does not."""
        default = StorageOptions(self.database)
        needs = (
            ("--cold-after", self.cold_after not in (default.cold_after, float("inf"))),
            ("--cold-columns", self.cold_columns != default.cold_columns),
            ("--cold-tables", self.cold_tables != default.cold_tables),
        )
        for name, is_given in needs:
            if is_given and self.cold is None:
                raise typer.BadParameter(f"{name} needs --cold as well")
        return self


def start(storage: StorageOptions, migrate: bool, limits: "Limits", producer_ttl: float) -> "Hub":
    """Return a hub that runs on *storage*; before anything listens, so that what prevents it is told in one line.

    Raises:
        CommandFailure: see `penstock.cli.database.open_database`.
    """
    from penstock.cli.database import DENIED, explain_failures
    from penstock.hub.cold.sealing import SealingOptions
    from penstock.hub.hub import Hub
    from penstock.hub.producers.producers import Expiry
    from penstock.storage import open_store

    database, cold, cold_after, cold_columns, cold_tables, replicas = storage
    age = None if cold_after == float("inf") else cold_after
    sealing = SealingOptions(age, is_typed=cold_columns == "typed")
    with explain_failures(database, create=migrate, denied=MIGRATE_BEFORE if migrate else DENIED):
        store = open_store(database, cold, replicas, has_tables=cold_tables == "delta")
        hub = Hub(store, limits=limits, expiry=Expiry(round(producer_ttl)), sealing=sealing)
        try:
            if migrate:
                hub.store.migrate()
            hub.start()
        except BaseException:
            hub.store.close()
            raise
        return hub


def tune_process() -> None:
    """Set what makes this process faster as a hub."""
    keep_large_blocks()
    collect_garbage_less_often()
    sys.setswitchinterval(SWITCH_SECONDS)


def keep_large_blocks() -> None:
    """Have the C library keep freed blocks of a chunk's size instead of giving them back to the system each time.

    Every chunk would otherwise be made of fresh pages that the kernel has to clear: measured, a third of the reading
    speed. All threads share two arenas: they take turns at the interpreter anyway, and each arena keeps blocks.
    """
    if not sys.platform.startswith("linux"):
        return
    mmap_threshold, trim_threshold, arena_max = -3, -1, -8
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # Another C library than glibc has its own ways.
    mallopt(mmap_threshold, 64 << 20)
    mallopt(trim_threshold, 256 << 20)
    mallopt(arena_max, 2)


def collect_garbage_less_often() -> None:
    """Have the garbage collector leave out what was imported, and look at new objects after 25 000 instead of 700.

    Requests leave few cycles behind. Each collection keeps all threads waiting: it looks at 125 000 objects at most,
    and at all only after 50 million.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(25_000, 4, 500)


OPEN_FILES_MAX: Final = 1 << 20
FILES_KEPT: Final = 256
"""The number of open files that are reserved for the database and the rest of the process."""


def _check_limits(given: Sequence[str]) -> None:
    """Raise BadParameter if a limit is given twice."""
    from penstock.server.limits import UsageLimits

    try:
        UsageLimits().replace(given)
    except ValueError as error:
        raise typer.BadParameter(f"--limit: {error}") from None


def usage_limits(given: Sequence[str], *, is_open: bool) -> "UsageLimits":
    """Return the limits of use: the defaults, with those that are *given* in place of some.

    With *is_open* callers have no limits of their own by default. There are never more connections than the process
    may have open files.
    """
    from penstock.server.limits import DEFAULT_LIMITS, OPEN_LIMITS

    limits = (OPEN_LIMITS if is_open else DEFAULT_LIMITS).replace(given)
    files = raise_open_files(limits.total.connections + FILES_KEPT)
    connections = min(limits.total.connections, max(1, files - FILES_KEPT))
    return limits._replace(total=limits.total._replace(connections=connections))


def raise_open_files(wanted: float) -> float:
    """Let the process have *wanted* open files, as far as the system allows it; return how many it may have."""
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    most = OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES_MAX)
    if min(wanted, most) > soft:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (int(min(wanted, most)), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to a server that listens on *host*.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _url(host: str, port: int, tls: object) -> str:
    scheme = "http" if tls is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _check_access(
    host: str, auth: Sequence[str] | None, *, insecure: bool, admin: Sequence[str] | None, default_access: str
) -> None:
    """Check that callers are authenticated where others than this machine can connect.

    Raises:
        CommandFailure: they are not, and --insecure is not given.
        BadParameter: an option about callers is given without --auth.
    """
    from penstock.cli.failures import CommandFailure

    if auth:
        if insecure:
            raise typer.BadParameter("--insecure goes without --auth: leave out one of them")
        return
    if admin or default_access != "open":
        raise typer.BadParameter("--admin and --default-access go with --auth, which says how callers are known")
    if not is_loopback(host) and not insecure:
        raise CommandFailure(
            f"--host {host} can be reached by others, and nobody would be asked who they are",
            "Make a token with `penstock token create NAME --admin`, and add --auth token. Or listen on 127.0.0.1, or "
            "let everybody do everything with --insecure.",
        )


class _Warning(NamedTuple):
    """A warning about dangerous options of a hub that starts."""

    event: str
    advice: str
    reason: str | None = None
    """The finding in a file."""


def _find_warnings(
    host: str, options: authentication.AuthenticationOptions, tls: "ServerTls | None", hub: "Hub | None" = None
) -> Iterator[_Warning]:
    from penstock.server.http.tls import CLIENTS_REFUSE

    methods, trusted = options.methods, options.proxy.trusted
    certificate_fault = None if tls is None else tls.find_fault()
    if not (methods or is_loopback(host)):
        yield _Warning(
            "no authentication: anyone who can connect to this address can read, publish and delete",
            "Use --auth token, or --host 127.0.0.1 behind a proxy that asks.",
        )
    if {"token", "jwt"} & {*methods} and options.tls.certificate is None and not (trusted or is_loopback(host)):
        yield _Warning(
            "tokens come in clear text: whoever sees the network can use them",
            "Use --tls-cert and --tls-key, or name the proxy that ends TLS by --trusted-proxy.",
        )
    if any(ip_network(each).prefixlen == 0 for each in trusted):
        claims = "be any caller" if "proxy" in methods else "tell links and addresses of its own"
        yield _Warning(
            f"every address is a trusted proxy: anyone who can connect can {claims}",
            "Name the proxies alone by --trusted-proxy, such as 10.0.0.7.",
        )
    if certificate_fault is not None:
        advice = "Replace the files: a running hub loads them within seconds."
        yield _Warning(CLIENTS_REFUSE, advice, certificate_fault)
    if not methods and hub is not None and _has_tokens(hub):
        yield _Warning(
            "no authentication, though the database has tokens: all who connect may do everything without one",
            "Use --auth token, or PENSTOCK_AUTH, as other hubs of this database do.",
        )


def _has_tokens(hub: "Hub") -> bool:
    from penstock.errors import DatabaseUnavailable

    try:
        return bool(hub.admin.tokens.list())
    except DatabaseUnavailable:  # The hub waits for the database, and serves without the warning.
        return False


class _Served(NamedTuple):
    url: str
    database: str
    created: bool
    """True if the database file was created."""
    warnings: Sequence[_Warning]
    has_console: bool


def _announce(served: _Served, *, as_json: bool) -> None:
    url, database, created, warnings, has_console = served
    shown = {"console": f"{url}/console"} if has_console else {}
    if as_json:
        import structlog

        log = structlog.get_logger("penstock.serve")
        log.info("serving", url=url, database=database, created=created, **shown)
        for event, advice, reason in warnings:
            log.warning(event, advice=advice, **({"url": url} if reason is None else {"reason": reason}))
        return
    from penstock import __version__
    from penstock.cli.output import tell

    tell(f"Penstock {__version__}", style="bold cyan")
    tell(f"  hub        {url}      described at {url}/docs")
    for name, address in shown.items():
        tell(f"  {name}    {address}")
    tell(f"  database   {database}{'      created: the file did not exist' if created else ''}")
    for event, advice, reason in warnings:
        tell(f"  WARNING    {event if reason is None else f'{event}: {reason}'}.", style="bold red")
        tell(f"             {advice}", style="red")
    tell("  Ctrl-C stops it.", style="dim")
