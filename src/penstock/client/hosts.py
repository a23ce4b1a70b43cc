"""Hosts in addresses: which are this machine, and which are IP addresses."""

import ipaddress
import re
import socket
from typing import Final

_NUMBERS: Final = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)(\.(0[xX][0-9a-fA-F]+|[0-9]+))*", re.ASCII)
"""The forms of an IPv4 address that `inet_aton` reads: up to four decimal, octal or hexadecimal numbers."""


def is_this_machine(host: str) -> bool:
    """Return whether *host* is this machine: a loopback address, one that means any address, or `localhost`.

    Names that end in `.localhost` are loopback as well (RFC 6761, 6.3).

    >>> is_this_machine("hub.localhost"), is_this_machine("127.1.2.3"), is_this_machine("::1"), is_this_machine("127.1")
    (True, True, True, True)
    >>> is_this_machine("0.0.0.0"), is_this_machine("::ffff:127.0.0.1"), is_this_machine("127.example")
    (True, True, False)
    """
    address = parse_ip(host)
    if address is None:
        return host == "localhost" or host.endswith(".localhost")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback or address.is_unspecified


def parse_ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that *host* is; None: it is a name. `127.1` and `0x7f000001` are addresses as well."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host)) if _NUMBERS.fullmatch(host) else None
    except OSError:
        return None
