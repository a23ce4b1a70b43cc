"""Hosts in addresses: which are this machine, and which are IP addresses."""

import ipaddress
import re
from typing import Final

_NUMBERS: Final = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)(\.(0[xX][0-9a-fA-F]+|[0-9]+)){0,3}", re.ASCII)
"""The forms of an IPv4 address that POSIX's `inet_aton` reads: up to four decimal, octal or hexadecimal numbers."""


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
    if not _NUMBERS.fullmatch(host):
        return None
    try:
        *octets, rest = map(_parse_number, host.split("."))
        return ipaddress.IPv4Address(bytes(octets) + rest.to_bytes(4 - len(octets), "big"))
    except (ValueError, OverflowError):
        return None


def _parse_number(text: str) -> int:
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    return int(text, 8 if text.startswith("0") else 10)
