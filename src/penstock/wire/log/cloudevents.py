"""CloudEvents 1.0: how CloudEvents become events of a feed, and events of a feed CloudEvents.

An event of a feed is a JSON object with headers. The `data` of a CloudEvent is the object, and each of its attributes
is the header `ce_{attribute}`, as text. An event with the header `ce_specversion` was published as a CloudEvent, and is
read as an equal one. Other events are read as CloudEvents with attributes that follow from them.

Sources, cited by section: https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md ("core"),
formats/json-format.md ("JSON") and bindings/http-protocol-binding.md ("HTTP") beside it. Where they leave a choice,
docs/reference/http/cloudevents.md says which one this is.
"""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from calendar import monthrange
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal
from urllib.parse import unquote_to_bytes
from uuid import NAMESPACE_URL, uuid5

import msgspec

from penstock.core.events.event import (
    DECODED_BYTES_MAX,
    EVENT_BYTES_MAX,
    HEADERS_BYTES_MAX,
    KEY_CHARS_MAX,
    NewEvent,
    derive_headers,
)
from penstock.core.registry.event_type import EventType
from penstock.core.times import format_time
from penstock.errors import EventTooLarge, InvalidEvent, UnsupportedFormat
from penstock.schema.json_text import decode, explain_malformed, json_type_name, refuse_duplicate_keys
from penstock.schema.traversal import format_pointer
from penstock.wire.log.nakadi import parse_batch as split_batch
from penstock.wire.query import make_printable

STRUCTURED: Final = "application/cloudevents+json"
"""Media type of one CloudEvent in the JSON format (JSON, 3)."""
BATCHED: Final = "application/cloudevents-batch+json"
"""Media type of an array of CloudEvents (JSON, 4)."""
HTTP_PREFIX: Final = "ce-"
"""Prefix of an attribute's HTTP header in binary mode (HTTP, 3.1.3.1)."""
HEADER_PREFIX: Final = "ce_"
"""Prefix of an attribute's header in a feed."""
FORM_HEADER: Final = "cloudevent"
"""Header of a feed with what the texts of attributes do not say, in words: `retries=integer`, `final=boolean`,
`data=none` for a CloudEvent without data, `metadata=none` if the metadata was made from its attributes."""
ContentMode = Literal["binary", "structured", "batched"]

_PREFIX: Final = "application/cloudevents"
_VERSION: Final = "1.0"
_REQUIRED: Final = ("specversion", "id", "source", "type")
_ALWAYS: Final = frozenset(HEADER_PREFIX + name for name in _REQUIRED)
"""The headers from which an event that was published as a CloudEvent has attributes if it lacks its own."""
_ALLOWED: Final = f"{STRUCTURED}, {BATCHED}, binary mode or feed lines"
_MEMBER_BYTES_MIN: Final = len('"a":1,')
"""Minimum number of additional bytes in an object with a repeated member."""
_INTEGER_MAX: Final = (1 << 31) - 1
_encode: Final = msgspec.json.Encoder().encode
_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_headers: Final = msgspec.json.Decoder(dict[str, str]).decode

_NAME: Final = re.compile("[a-z0-9]+")
_NO_TEXT: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef"
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(17))
    + "]"
)
"""Characters that a text may not have (core, Type System)."""
_INTEGER: Final = re.compile("-?(0|[1-9][0-9]{0,9})")
_UUID: Final = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[-+]([01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
_LONG_FRACTION: Final = re.compile(r"(\.\d{9})\d+")
_CHAR: Final = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})"
_URI_REST: Final = rf"(?://(?:{_CHAR}|[\[\]])*|{_CHAR}*)(?:\?(?:{_CHAR}|\?)*)?(?:#(?:{_CHAR}|\?)*)?"
_SCHEME: Final = r"[A-Za-z][A-Za-z0-9+\-.]*:"
_URI: Final = re.compile(_SCHEME + _URI_REST)
_URI_REFERENCE: Final = re.compile(rf"(?:{_SCHEME}|(?![^/?#]*:)){_URI_REST}")
_TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105 - a token of RFC 2045's grammar
_PARAMETER: Final = rf'[ \t]*+;[ \t]*+{_TOKEN}=(?:{_TOKEN}|"(?:[^"\\]|\\.)*+")'
_MEDIA_TYPE: Final = re.compile(rf"({_TOKEN}/{_TOKEN})(?:{_PARAMETER})*+[ \t]*+;?[ \t]*+")
_CHARSET: Final = re.compile(r';\s*charset="?([^";\s]*)', re.IGNORECASE)
_QUOTED: Final = re.compile(r'"((?:[^"\\]++|\\.)*+)("?)')
"""A quoted string, whole or cut off."""
_ESCAPED: Final = re.compile(r"\\(.)")
_BAD_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})")

_Attribute = str | int | bool
_Place = Callable[[str], str]
"""Returns the place of an attribute in the request, for errors."""


def find_content_mode(headers: Mapping[str, str]) -> ContentMode | None:
    """Return the mode in which a request with these HTTP *headers* has CloudEvents; None if it has none (HTTP, 3).

    A request with any of the required attributes as a header is one in binary mode, so that a forgotten one is named.

    Raises:
        UnsupportedFormat: It announces CloudEvents in another format than JSON in UTF-8.

    >>> find_content_mode({"content-type": "Application/CloudEvents-Batch+JSON"}), find_content_mode({"ce-id": "1"})
    ('batched', 'binary')
    """
    given = headers.get("content-type", "")
    media_type = given.partition(";")[0].strip().lower()
    if not media_type.startswith(_PREFIX):
        return "binary" if any(HTTP_PREFIX + name in headers for name in _REQUIRED) else None
    if media_type not in (STRUCTURED, BATCHED) or not _is_utf8(given):
        raise UnsupportedFormat.of("unsupported-media-type", given=make_printable(given), allowed=_ALLOWED)
    return "batched" if media_type == BATCHED else "structured"


def parse_structured(body: bytes, event_type: EventType) -> NewEvent:
    """Return the event of *event_type* for a CloudEvent in structured mode (HTTP, 3.2).

    Raises:
        InvalidEvent: It is not a CloudEvent, or has data that no feed can hold; names the attribute.
        EventTooLarge: It is far above the limit.
    """
    return _parse_object(body, 1, event_type)


def parse_batch(body: bytes, event_type: EventType) -> list[NewEvent]:
    """Return the events of *event_type* for CloudEvents in batched mode (HTTP, 3.3).

    Raises:
        MalformedRequest, RequestTooLarge: The body is not an array, or one of too many events.
        InvalidEvent, EventTooLarge: As in `parse_structured`; names the number of the first one, from 1.
    """
    return [_parse_object(bytes(each.data), number, event_type) for number, each in enumerate(split_batch(body), 1)]


def parse_binary(headers: Iterable[tuple[bytes, bytes]], body: bytes, event_type: EventType) -> NewEvent:
    """Return the event of *event_type* for a CloudEvent in binary mode, with the names of *headers* in lower case.

    Raises:
        InvalidEvent: As in `parse_structured`; names the header (HTTP, 3.1).
    """
    attributes: dict[str, _Attribute] = {}
    for raw_name, raw in headers:
        name = raw_name.decode("latin-1")
        if name == "content-type":
            attribute, value = "datacontenttype", raw.decode("latin-1").strip()
        elif name.startswith(HTTP_PREFIX):
            attribute, value = name.removeprefix(HTTP_PREFIX), _decode_value(name, raw)
            if attribute == "datacontenttype":
                raise _invalid(
                    attribute, _name_header, "is the header Content-Type in binary mode (HTTP binding, 3.1.1)"
                )
        else:
            continue
        if attribute in attributes:
            raise _invalid(attribute, _name_header, "stands twice")
        attributes[attribute] = value
    _check_attributes(attributes, 1, _name_header)
    data = body.strip(b" \t\r\n") or None
    if data is not None:
        _check_charset(attributes.get("datacontenttype"), 1, _name_header)
        if not data.startswith(b"{"):
            raise InvalidEvent(line=1, reason=f"the body: {_explain_value(data)}", attribute="data")
    return _make_event(attributes, data, 1, _name_header, event_type)


def _name_header(attribute: str) -> str:
    return f"header {'content-type' if attribute == 'datacontenttype' else HTTP_PREFIX + make_printable(attribute)!r}"


def _name_member(attribute: str) -> str:
    return format_pointer((make_printable(attribute),))


def _invalid(attribute: str, place: _Place, reason: str, line: int = 1) -> InvalidEvent:
    return InvalidEvent(line=line, reason=f"{place(attribute)}: {reason}", attribute=make_printable(attribute))


def _decode_value(name: str, raw: bytes) -> str:
    """Return the value of the HTTP header *name*: unquoted, then percent-decoded once (HTTP, 3.1.3.2)."""
    attribute = name.removeprefix(HTTP_PREFIX)
    try:
        text = raw.decode("ascii").strip()
    except UnicodeDecodeError:
        raise _invalid(attribute, _name_header, "must be ASCII: percent-encode it in UTF-8") from None
    if '"' in text:
        if not all(end for _, end in _QUOTED.findall(text)):
            raise _invalid(attribute, _name_header, 'has a single ": percent-encode it as %22')
        text = _QUOTED.sub(lambda quoted: _ESCAPED.sub(r"\1", quoted[1]), text)
    if "%" not in text:
        return text
    if _BAD_PERCENT.search(text):
        raise _invalid(attribute, _name_header, "has a % without two hexadecimal digits: percent-encode it as %25")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise _invalid(attribute, _name_header, "is not UTF-8 once it is percent-decoded") from None


def _parse_object(raw: bytes, line: int, event_type: EventType) -> NewEvent:
    """Return the event for a CloudEvent in the JSON format (JSON, 2 and 3)."""
    if len(raw) > DECODED_BYTES_MAX:
        raise EventTooLarge(line=line, size=len(raw), limit=EVENT_BYTES_MAX)
    try:
        members = _decode_members(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        reason = f"a CloudEvent is one JSON object: {explain_malformed(raw, error)}"
        raise InvalidEvent(line=line, reason=reason) from None
    if len(raw) - len(_encode(members)) >= _MEMBER_BYTES_MIN:
        refuse_duplicate_keys(raw, line)
    given, encoded = members.pop("data", None), members.pop("data_base64", None)
    attributes: dict[str, _Attribute] = {}
    for name, value in members.items():
        read = _read_value(bytes(value))
        if read is not None:  # "null MUST be treated as the equivalent of unset" (JSON, 2.2).
            attributes[name] = read
        elif bytes(value) != b"null":
            reason = "must be a text, a whole number of 32 bits, true or false"
            raise _invalid(name, _name_member, f"{reason}, not {bytes(value)[:40].decode(errors='replace')}", line)
    _check_attributes(attributes, line, _name_member)
    if encoded is not None and bytes(encoded) != b"null":
        if given is not None:
            raise _invalid("data_base64", _name_member, "does not go with data (JSON format, 3.1.1)", line)
        data: bytes | None = _decode_base64(bytes(encoded), attributes, line)
    else:
        data = None if given is None else bytes(given)
    if data is not None and not data.startswith(b"{"):
        raise _invalid("data" if encoded is None else "data_base64", _name_member, _explain_value(data), line)
    return _make_event(attributes, data, line, _name_member, event_type)


def _read_value(raw: bytes) -> _Attribute | None:
    """Return the value of an attribute in JSON; None if it is null, or of no type that attributes have."""
    if raw.startswith(b'"') or raw in (b"true", b"false"):
        text: str | bool = decode(raw)
        return text
    if _INTEGER.fullmatch(raw.decode(errors="replace")) and -_INTEGER_MAX - 1 <= int(raw) <= _INTEGER_MAX:
        return int(raw)
    return None


def _explain_value(raw: bytes) -> str:
    try:
        found = json_type_name(decode(raw))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        found = "no JSON"
    return f"must be a JSON object, since an event of a feed is one; this is {found}"


def _decode_base64(raw: bytes, attributes: Mapping[str, _Attribute], line: int) -> bytes:
    """Return the data in `data_base64`, which a feed can hold only if it is declared to be JSON (JSON, 3.1.2)."""
    if "datacontenttype" not in attributes:
        reason = "needs a datacontenttype such as application/json: a feed holds JSON objects only"
        raise _invalid("data_base64", _name_member, reason, line)
    _check_charset(attributes["datacontenttype"], line, _name_member)
    try:
        return b64decode(msgspec.json.decode(raw, type=str), validate=True).strip(b" \t\r\n")
    except (msgspec.ValidationError, Base64Error, ValueError):
        raise _invalid("data_base64", _name_member, "is not Base64 (RFC 4648, 4)", line) from None


def _check_charset(content_type: _Attribute | None, line: int, place: _Place) -> None:
    if isinstance(content_type, str) and not _is_utf8(content_type):
        raise _invalid("datacontenttype", place, f"must be in UTF-8, not {make_printable(content_type)!r}", line)


def _is_utf8(content_type: str) -> bool:
    charset = _CHARSET.search(content_type)
    return charset is None or charset[1].lower() in ("utf-8", "utf8", "us-ascii")


def _check_attributes(attributes: Mapping[str, _Attribute], line: int, place: _Place) -> None:
    """Raise InvalidEvent unless these are the attributes of a CloudEvent (core, Context Attributes)."""
    for name in attributes:
        if name == "data" or not _NAME.fullmatch(name):
            reason = "the name of an attribute has lower-case letters a-z and digits only, and is not data"
            raise _invalid(name, place, reason, line)
    for name in _REQUIRED:
        if name not in attributes:
            raise _invalid(name, place, "is missing; a CloudEvent has specversion, id, source and type", line)
    if attributes["specversion"] != _VERSION:
        found = make_printable(str(attributes["specversion"]))
        raise _invalid("specversion", place, f"must be {_VERSION!r}, not {found!r}", line)
    for name, value in attributes.items():
        if (rule := _find_violation(name, value)) is not None:
            shown = make_printable(value) if isinstance(value, str) else value
            raise _invalid(name, place, f"must be {rule}, not {shown!r}", line)


def _find_violation(name: str, value: _Attribute) -> str | None:
    """Return the rule that the *value* of an attribute breaks; None if it breaks none."""
    if not isinstance(value, str):
        return f"a text: {_TEXTS[name]}" if name in _TEXTS else None
    if len(value) > HEADERS_BYTES_MAX:
        return f"a text of at most {HEADERS_BYTES_MAX} bytes"
    if not (value.isascii() and value.isprintable()) and _NO_TEXT.search(value):
        return "a text without control characters and noncharacters"
    if name not in _TEXTS:
        return None
    is_valid = _RULES.get(name, bool)
    return None if is_valid(value) else _TEXTS[name]


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    if found is None:
        return False
    year, month, day = int(found[1]), int(found[2]), int(found[3])
    return 1 <= month <= 12 and 1 <= day <= monthrange(year or 4, month)[1]


def _is_json(content_type: str) -> bool:
    """Return whether *content_type* is a media type of the form `*/json` or `*/*+json` (JSON, 3.1.1)."""
    found = _MEDIA_TYPE.fullmatch(content_type)
    return found is not None and found[1].lower().endswith(("/json", "+json"))


_TEXTS: Final[Mapping[str, str]] = {
    "specversion": repr(_VERSION),
    "id": "not empty",
    "type": f"1 to {KEY_CHARS_MAX} characters, as a kind has",
    "subject": "not empty",
    "partitionkey": f"1 to {KEY_CHARS_MAX} characters, as a key has",
    "source": "a URI-reference (RFC 3986), percent-encoded where it needs that",
    "dataschema": "an absolute URI (RFC 3986)",
    "time": "a time as RFC 3339 writes it, with a zone, such as 2026-11-20T10:00:00Z",
    "datacontenttype": "a media type of JSON, such as application/json, since an event of a feed is a JSON object",
}
"""The attributes that are texts, with the rules that they follow beside those of all texts."""
_RULES: Final[Mapping[str, Callable[[str], bool]]] = {
    "specversion": lambda text: text == _VERSION,
    "type": lambda text: 0 < len(text) <= KEY_CHARS_MAX,
    "partitionkey": lambda text: 0 < len(text) <= KEY_CHARS_MAX,
    "source": lambda text: bool(text and _URI_REFERENCE.fullmatch(text)),
    "dataschema": lambda text: bool(_URI.fullmatch(text)),
    "time": _is_time,
    "datacontenttype": _is_json,
}
"""The rules that are more than not to be empty."""


def _make_event(
    attributes: Mapping[str, _Attribute], data: bytes | None, line: int, place: _Place, event_type: EventType
) -> NewEvent:
    """Return the event for a CloudEvent whose *attributes* are valid, and whose *data* begins as an object."""
    words = [f"{name}={_type_name(value)}" for name, value in attributes.items() if not isinstance(value, str)]
    if data is None:
        words.append("data=none")
        data = b"{}"
    members = _find_members(data) if event_type.category != "undefined" else None
    if members is not None and "metadata" not in members:
        words.append("metadata=none")
        metadata = _make_metadata(attributes, line, place, compacted=event_type.is_compacted)
        data = b'%b%b"metadata":%b}' % (data[:-1], b"," if members else b"", _encode(metadata))
    headers = {HEADER_PREFIX + name: _to_text(value) for name, value in attributes.items()}
    if words:
        headers[FORM_HEADER] = " ".join(words)
    return NewEvent.of(data, headers=headers)


def _find_members(data: bytes) -> dict[str, msgspec.Raw] | None:
    """Return the members of an event; None if it is malformed, as the hub will find out, too."""
    try:
        return _decode_members(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _make_metadata(
    attributes: Mapping[str, _Attribute], line: int, place: _Place, *, compacted: bool
) -> dict[str, object]:
    """Return the metadata of a business event or data change that has none, from the attributes of the CloudEvent."""
    time = attributes.get("time")
    if time is None:
        raise _invalid("time", place, "is missing; business events and data changes need the time of occurrence", line)
    metadata: dict[str, object] = {
        "eid": make_eid(str(attributes["source"]), str(attributes["id"])),
        "occurred_at": _LONG_FRACTION.sub(r"\1", str(time)),
    }
    trace = {name: attributes[name] for name in ("traceparent", "tracestate") if type(attributes.get(name)) is str}
    if trace:
        metadata["span_ctx"] = trace
    if compacted and "partitionkey" in attributes:
        metadata["partition_compaction_key"] = attributes["partitionkey"]
    return metadata


def make_eid(source: str, id: str) -> str:
    """Return the `eid` of a CloudEvent: its *id* if that is a UUID, else a UUID that follows from source and id.

    It is the UUID of version 5 of the id, in the namespace that is the UUID of version 5 of the source as a URL.

    >>> make_eid("/shop", "8C4F1A52-6D0E-4F7C-9A55-0D3A7C1BE001"), make_eid("/shop", "7")
    ('8C4F1A52-6D0E-4F7C-9A55-0D3A7C1BE001', 'b9f92cbb-d3e1-5823-a5ae-864ed38dd17a')
    """
    return id if _UUID.fullmatch(id) else str(uuid5(uuid5(NAMESPACE_URL, source), id))


def _type_name(value: _Attribute) -> str:
    return "boolean" if isinstance(value, bool) else "integer"


def _to_text(value: _Attribute) -> str:
    """Return the canonical text of a value (core, Type System)."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class CloudEventWriter:
    """Writes the events of a feed as CloudEvents in the JSON format.

    An event that was published as a CloudEvent is written with its own attributes. Another one has those that follow
    from it; its own headers `ce_…` win where they are valid attributes.
    """

    def __init__(self, event_type: str, epoch: int) -> None:
        """*epoch* is that of the feed: offsets begin again if an event type is created again."""
        self._event_type = event_type
        self._epoch = epoch

    def write(
        self,
        row: tuple[bytes | None, bytes | None, bytes | None, bytes],
        *,
        partition: int,
        offset: int,
        received_at: int,
    ) -> bytes:
        """Return the CloudEvent of an event.

        Args:
            row: key, kind, own headers and data of the event, as the log has them.
            partition: its partition in the feed.
            offset: its offset in the partition.
            received_at: when the hub received it, in microseconds since 1970, UTC.
        """
        key, kind, own, data = row
        place = f"{self._epoch}-{partition}-{offset}"
        if own is None and b'"metadata"' not in data and b"\\u" not in data:  # Nothing follows from its data.
            return b'{"specversion":"1.0","id":"%b",%b,"time":"%b",%b"data":%b}' % (
                place.encode(),
                _encode_origin(self._event_type, kind),
                _encode_time(received_at),
                _encode_key(key) if key else b"",
                data,
            )
        return self._write_attributes(place, received_at, row)

    def _write_attributes(
        self, place: str, received_at: int, row: tuple[bytes | None, bytes | None, bytes | None, bytes]
    ) -> bytes:
        key, kind, own, data = row
        given = _decode_headers(own) if own else {}
        is_whole = given.get(HEADER_PREFIX + "specversion") == _VERSION
        words = given.get(FORM_HEADER, "").split() if is_whole else []
        derived = {}
        if not (is_whole and given.keys() >= _ALWAYS):
            derived = derive_headers(
                decode(data),
                event_type=self._event_type,
                kind=kind.decode() if kind else None,
                key=key.decode() if key else None,
            )
        attributes: dict[str, Any] = {
            "specversion": _VERSION,
            "id": place,
            "source": f"/event-types/{self._event_type}",
            "type": self._event_type,
        }
        if not is_whole:
            attributes |= {"time": format_time(received_at), "datacontenttype": "application/json"}
        for header in derived:
            if not is_whole or header in _ALWAYS:
                _take(attributes, derived, header)
        for header in given:
            _take(attributes, given, header, words)
        if "metadata=none" in words:
            members = _decode_members(data)
            members.pop("metadata", None)
            data = _encode(members)
        if "data=none" in words and data.strip() == b"{}":
            return _encode(attributes)
        return _encode(attributes | {"data": msgspec.Raw(data)})


def _take(attributes: dict[str, Any], headers: Mapping[str, str], header: str, words: Iterable[str] = ()) -> None:
    """Set the attribute of *header* if it is a valid one."""
    name, text = header.removeprefix(HEADER_PREFIX), headers[header]
    if name in (header, "data") or not _NAME.fullmatch(name) or _find_violation(name, text) is not None:
        return
    if f"{name}=boolean" in words and text in ("true", "false"):
        attributes[name] = text == "true"
    elif f"{name}=integer" in words and _INTEGER.fullmatch(text):
        attributes[name] = int(text)
    else:
        attributes[name] = text


@lru_cache(maxsize=1_024)
def _encode_origin(event_type: str, kind: bytes | None) -> bytes:
    """Return the members that are the same for all events of a kind."""
    name = kind.decode() if kind else event_type
    valid = event_type if _find_violation("type", name) else name
    members = {"source": f"/event-types/{event_type}", "type": valid, "datacontenttype": "application/json"}
    return _encode(members)[1:-1]


@lru_cache(maxsize=1_024)
def _encode_time(received_at: int) -> bytes:
    return format_time(received_at).encode()


def _encode_key(key: bytes) -> bytes:
    text = key.decode()
    return b'"partitionkey":%b,' % _encode(text) if _find_violation("partitionkey", text) is None else b""
