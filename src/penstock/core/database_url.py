"""Database URLs in the forms that drivers and SQLAlchemy take."""

from typing import Final
from urllib.parse import parse_qsl, unquote, urlencode

_DATABASES: Final = {"postgresql", "postgres", "sqlite"}


def plain_url(url: str) -> str:
    r"""Return *url* in the form that drivers take: without white space around it and SQLAlchemy's driver name.

    A URL that was read from a file mostly ends in a line break.

    >>> plain_url("postgresql+psycopg://me@host/shop\n"), plain_url("sqlite+aiosqlite:///shop.db")
    ('postgresql://me@host/shop', 'sqlite:///shop.db')
    """
    scheme, separator, rest = url.strip().partition("://")
    database = scheme.partition("+")[0]
    return f"{database if database in _DATABASES else scheme}{separator}{rest}"


def show_url(url: str) -> str:
    """Return *url* with the hosts, ports and name of its database alone, wherever they stand in it: no password.

    >>> show_url("postgresql://me:secret@host:6432/shop?sslmode=require")
    'postgresql://host:6432/shop'
    >>> show_url("postgresql://me:secret@/shop?host=host&port=6432")
    'postgresql://host:6432/shop'
    """
    scheme, _, rest = url.partition("://")
    place, _, query = rest.partition("?")
    if "@" in query:  # Perhaps a password with a question mark.
        return f"{scheme}://…"
    authority, slash, name = place.rpartition("@")[2].partition("/")
    given = dict(parse_qsl(query))
    if scheme not in ("postgresql", "postgres") or not given.keys() & {"host", "port", "dbname"}:
        return f"{scheme}://{authority}{slash}{name}"
    hosts, ports = _split_authority(authority)
    return format_postgres(given.get("host", hosts), given.get("port", ports), given.get("dbname", unquote(name)))


def format_postgres(hosts: str, ports: str, name: str) -> str:
    """Return the URL of a PostgreSQL database, of hosts and ports as libpq lists them: with commas, or empty.

    >>> format_postgres("a,b", "5432,5433", "shop"), format_postgres("/run/postgresql", "", "shop")
    ('postgresql://a:5432,b:5433/shop', 'postgresql:///shop?host=%2Frun%2Fpostgresql')
    """
    host_list, port_list = hosts.split(","), ports.split(",")
    if "/" in hosts or (ports and not hosts) or len(port_list) not in (1, len(host_list)):
        given = {name: value for name, value in (("host", hosts), ("port", ports)) if value}
        return f"postgresql:///{name}?{urlencode(given)}"
    if len(port_list) == 1:
        port_list *= len(host_list)
    pairs = zip(host_list, port_list, strict=True)
    return f"postgresql://{','.join(_join(*pair) for pair in pairs)}/{name}"


def _join(host: str, port: str) -> str:
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{port}" if port else host


def _split_authority(authority: str) -> tuple[str, str]:
    """Return the hosts and ports of a URL's authority as libpq lists them."""
    pairs = []
    for each in authority.split(","):
        host, _, port = each.rpartition(":") if ":" in each.rpartition("]")[2] else (each, "", "")
        pairs.append((host.strip("[]"), port))
    ports = ",".join(port for _, port in pairs)
    return ",".join(host for host, _ in pairs), ports if ports.strip(",") else ""
