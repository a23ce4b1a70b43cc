"""Forms of IP addresses in the host of an address."""

import socket
from ipaddress import IPv4Address

import pytest

from penstock.core.hosts import parse_ip

PARTS = ("0", "0377", "0x7f", "0XFF", "256", "65535", "08", "4294967295", "4294967296")
FORMS = [
    *PARTS,
    *(f"{first}.{rest}" for first in ("1", "0377", "256") for rest in PARTS),
    *("127.0.1", "127.1.65535", "127.1.65536", "1.2.3.0x4", "1.2.3.256", "1.2.3.4.5", "1.2.3.4.0"),
]


@pytest.mark.parametrize("host", FORMS)
def test_numeric_host_is_the_address_that_the_system_would_connect_to(host: str) -> None:
    try:
        expected = IPv4Address(socket.inet_aton(host))
    except OSError:
        expected = None

    assert parse_ip(host) == expected
