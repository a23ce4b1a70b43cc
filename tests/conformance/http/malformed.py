"""Parts of requests that RFC 9112 has a server refuse, or close the connection after."""

from typing import Final

LENGTHS: Final = (
    *(b"", b" ", b" +18", b" -18", b" 0x12", b" 1_8", b" 1 8", b" 18;", b" 18.0", b" 1e1", b" 18,", b" ,18", b" abc"),
    *(b" 18\x0b", b" \x0c18", b" 18\0", b" 18\x7f", " ١٨".encode(), b" 18\xa0", b" \xb2", b" 18, 19"),
)
"""Values of Content-Length that are no number, or that some take for 18."""

CODINGS: Final = (
    *("chunked, chunked", "chunked, identity", "chunked;q=1", "xchunked", "identity", "gzip", "gzip, chunked"),
    *("\x0bchunked", '"chunked"', ""),
)
"""Values of Transfer-Encoding that do not end in chunked alone, or that the hub cannot undo."""

CHUNK_SIZES: Final = (
    *(b"+12", b"-12", b"0x12", b"1_2", b"", b"g", b"12 12", b"12,12", b"\xb2"),
    *(b"12\n", b"12;a=\nb", b"12\r"),
)
"""Lines before 18 bytes of data that do not say 18 in plain hexadecimal digits."""

NAME_BYTES: Final = tuple(bytes([each]) for each in b' \t\0\x01\x7f\x80"(),/;<=>?@[\\]{}\r')
"""Bytes that are no part of a header's name."""

NAME_BYTES_OF_EACH_KIND: Final = tuple(bytes([each]) for each in b" \t\0\x7f\x80(\r")
"""Spaces, control characters, bytes beyond ASCII, separators, and a bare CR."""

VALUE_BYTES: Final = (b"\0", b"\r")
"""Bytes that a header's value cannot have."""

DOUBTFUL_VALUE_BYTES: Final = (b"\x01", b"\x1b", b"\x7f")
"""Bytes that a header's value should not have, but that do no harm (RFC 9110, 5.5)."""

LINES: Final = (
    *(b"X-Note : a", b"X-Note\t: a", b"Transfer-Encoding : chunked", b"X-Note", b": a"),
    *(b"Transfer-Encoding:\r\n chunked", b"X-Note: a\rContent-Length: 0", b"X-Note: a\nContent-Length: 0"),
    *(b"X-Note: a\nTransfer-Encoding: chunked", b"Content-Length: 0"),
)
"""Lines that a head with a Content-Length above 0 cannot have."""

HOSTS: Final = ("a b", "user@hub", "hub/path", "hub?x", "hub, other")
"""Values of Host that are none."""

VERSIONS: Final = ("HTTP/2.0", "HTTP/3", "HTTP/1", "HTTP/1.10", "HTTP/11.1", "HTTP/01.1", "HTTP/1.1.1", "ICAP/1.0")
"""Protocols that a client of HTTP/1.1 does not name."""
