"""CloudEvents become events of a feed and are read as equal ones; invalid ones are refused by their attribute."""

import base64
import json
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.events.event import NewEvent
from penstock.core.registry.event_type import EventType
from penstock.errors import EventTooLarge, InvalidEvent, MalformedEvent, MalformedRequest, PenstockError
from penstock.errors import UnsupportedFormat as Unsupported
from penstock.testing.factories import an_event_type
from penstock.wire.log.cloudevents import (
    BATCHED,
    STRUCTURED,
    CloudEventWriter,
    find_content_mode,
    parse_batch,
    parse_binary,
    parse_structured,
)

NAME = "order.placed"
UNDEFINED = EventType.parse(an_event_type(NAME))
BUSINESS = EventType.parse(an_event_type(NAME, category="business", enrichment_strategies=["metadata_enrichment"]))
REQUIRED = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "shop.order.placed"}
TIME = "2026-11-20T10:00:00.123456789+01:30"
RECEIVED_AT = 1_795_197_600_000_000
UUID = "8C4f1a52-6d0e-4f7c-9a55-0d3a7c1be001"


def event(**members: Any) -> dict[str, Any]:
    return {**REQUIRED, "data": {"order_id": 7}} | members


def parsed(cloud_event: dict[str, Any], event_type: EventType = UNDEFINED) -> NewEvent:
    return parse_structured(json.dumps(cloud_event).encode(), event_type)


def written(new: NewEvent, *, metadata: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the CloudEvent of an event that the log has stored; *metadata* is what the hub has added to its own."""
    headers = new.headers or {}
    data = bytes(new.data)
    if metadata:
        whole = json.loads(data)
        data = json.dumps(whole | {"metadata": whole["metadata"] | metadata}).encode()
    key, kind = (text and text.encode() for text in (headers.get("ce_partitionkey", new.key), headers.get("ce_type")))
    own = msgspec.json.encode(headers) if headers else None
    row = (key, None if kind == NAME.encode() else kind, own, data)
    found = CloudEventWriter(NAME, 3).write(row, partition=2, offset=40, received_at=RECEIVED_AT)
    read: dict[str, Any] = json.loads(found)
    return read


def binary(headers: dict[str, str | bytes], body: bytes = b'{"order_id": 7}') -> NewEvent:
    given = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop", "ce-type": "a"} | headers
    raw = [(name.encode(), value.encode() if isinstance(value, str) else value) for name, value in given.items()]
    return parse_binary(raw, body, UNDEFINED)


TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs", "Cn"]), min_size=1, max_size=20)
VALUES = st.one_of(TEXTS, st.just(""), st.booleans(), st.integers(-(2**31), 2**31 - 1), st.sampled_from(["5", "true"]))
NAMES = st.from_regex(r"[a-z0-9]{1,20}", fullmatch=True).filter(
    lambda name: name not in {*KNOWN, "data", "partitionkey"}
)
KNOWN = {*REQUIRED, "subject", "time", "dataschema", "datacontenttype"}
TIMES = ["2026-11-20T10:00:00Z", TIME, "2026-02-28t23:59:60.5z", "0001-01-01T00:00:00-23:59", "2024-02-29T00:00:00Z"]
CLOUD_EVENTS = st.fixed_dictionaries(
    {
        "specversion": st.just("1.0"),
        "id": TEXTS,
        "source": st.sampled_from(["/", "urn:uuid:1", "https://a.example/%20?q=1#f", "1-55", "//[::1]/x", "?", "#"]),
        "type": TEXTS,
    },
    optional={
        "subject": TEXTS,
        "time": st.sampled_from(TIMES),
        "dataschema": st.sampled_from(["https://a.example/schema.json#/x", "urn:a:b"]),
        "datacontenttype": st.sampled_from(["application/json", 'TEXT/Json; charset="utf-8"', "application/a.b+json"]),
        "partitionkey": TEXTS,
        "data": st.dictionaries(TEXTS.filter(lambda name: name != "metadata"), st.one_of(TEXTS, st.integers(0, 9))),
    },
)  # fmt: skip


@given(st.builds(lambda known, own: own | known, CLOUD_EVENTS, st.dictionaries(NAMES, VALUES, max_size=4)))
def test_cloud_event_is_read_as_it_was_published(cloud_event: dict[str, Any]) -> None:
    assert written(parsed(cloud_event)) == cloud_event
    [of_batch] = parse_batch(json.dumps([cloud_event], indent=1).encode(), UNDEFINED)
    assert written(of_batch) == cloud_event


@given(st.builds(lambda known, own: own | known, CLOUD_EVENTS, st.dictionaries(NAMES, VALUES, max_size=4)))
def test_business_event_gets_metadata_that_its_cloud_event_does_not_show(cloud_event: dict[str, Any]) -> None:
    cloud_event.setdefault("time", TIME)
    new = parsed(cloud_event, BUSINESS)
    assert set(json.loads(bytes(new.data))["metadata"]) >= {"eid", "occurred_at"}
    assert written(new, metadata={"received_at": "now", "version": "1.0.0"}) == cloud_event


def test_metadata_is_made_of_id_time_and_trace() -> None:
    def metadata(**members: Any) -> Any:
        return json.loads(bytes(parsed(event(time=TIME) | members, BUSINESS).data))["metadata"]

    namespace = uuid5(NAMESPACE_URL, "/shop")
    assert metadata() == {"eid": str(uuid5(namespace, "1")), "occurred_at": TIME}
    assert metadata(id=UUID, time="2026-01-01T00:00:00.1234567890123Z") == {
        "eid": UUID,
        "occurred_at": "2026-01-01T00:00:00.123456789Z",
    }
    assert metadata(traceparent="00-1", tracestate="a=b")["span_ctx"] == {"traceparent": "00-1", "tracestate": "a=b"}
    own = {"eid": UUID, "occurred_at": TIME, "flow_id": "f"}
    kept = parsed(event(data={"n": 1, "metadata": own}), BUSINESS)
    assert json.loads(bytes(kept.data))["metadata"] == own
    assert written(kept)["data"]["metadata"] == own
    compacted = EventType.parse(an_event_type(NAME, category="business", cleanup_policy="compact"))
    found = parsed(event(time=TIME, partitionkey="k"), compacted)
    assert json.loads(bytes(found.data))["metadata"]["partition_compaction_key"] == "k"


def test_null_attribute_is_unset_and_data_stay_byte_for_byte() -> None:
    raw = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","subject":null,"x":null,"data":{"n": 1.50, "m":[ ]}}'
    new = parse_structured(raw, UNDEFINED)
    assert bytes(new.data) == b'{"n": 1.50, "m":[ ]}'
    assert new.headers == {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/s", "ce_type": "t"}


def test_json_in_base64_is_data() -> None:
    encoded = base64.b64encode(b' {"n": 1}\n').decode()
    given = {**REQUIRED, "datacontenttype": "application/json", "data_base64": encoded}
    assert written(parsed(given)) == {**REQUIRED, "datacontenttype": "application/json", "data": {"n": 1}}


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    *((event(**{name: None}), name, "is missing") for name in REQUIRED),
    *((event(**{name: ""}), name, "must be") for name in ("id", "source", "type", "subject", "dataschema", "time")),
    *((event(**{name: 5}), name, "must be a text") for name in ("id", "source", "type", "subject", "time")),
    (event(specversion="0.3"), "specversion", "must be '1.0', not '0.3'"),
    (event(specversion=1.0), "specversion", "not 1.0"),
    (event(source="not a uri"), "source", "URI-reference"),
    (event(source="a%2"), "source", "URI-reference"),
    (event(source="1:2"), "source", "URI-reference"),
    (event(source="/grün"), "source", "URI-reference"),
    (event(dataschema="/relative"), "dataschema", "absolute URI"),
    *(
        (event(time=time), "time", "RFC 3339")
        for time in ("yesterday", "2026-11-20", "2026-11-20T10:00:00", "2026-02-29T00:00:00Z", "2026-11-20 10:00:00Z")
    ),
    (event(time="2026-11-20T24:00:00Z"), "time", "RFC 3339"),
    (event(datacontenttype="text/plain", data="hello"), "datacontenttype", "media type of JSON"),
    (event(datacontenttype="json"), "datacontenttype", "media type of JSON"),
    (event(Subject="x"), "Subject", "lower-case letters"),
    (event(my_extension="x"), "my_extension", "lower-case letters"),
    (event(**{"": "x"}), "", "lower-case letters"),
    (event(x={"a": 1}), "x", "a whole number of 32 bits"),
    (event(x=[1]), "x", "a whole number of 32 bits"),
    (event(x=1.5), "x", "a whole number of 32 bits"),
    (event(x=2**31), "x", "a whole number of 32 bits"),
    (event(id="a\nb"), "id", "without control characters"),
    (event(x="a\x85"), "x", "without control characters"),
    (event(x="\ufffe"), "x", "noncharacters"),
    (event(x="a" * 70_000), "x", "at most 65536 bytes"),
    (event(partitionkey=""), "partitionkey", "1 to 1024 characters"),
    (event(type="a" * 1025), "type", "1 to 1024 characters"),
    (event(data="text"), "data", "this is a string"),
    (event(data=None), "data", "this is null"),
    (event(data=[1]), "data", "this is an array"),
    (event(data_base64="e30="), "data_base64", "does not go with data"),
    (REQUIRED | {"data_base64": "e30="}, "data_base64", "needs a datacontenttype"),
    (REQUIRED | {"datacontenttype": "a/json", "data_base64": "e30"}, "data_base64", "is not Base64"),
    (REQUIRED | {"datacontenttype": "a/json", "data_base64": 5}, "data_base64", "is not Base64"),
    (REQUIRED | {"datacontenttype": "a/json", "data_base64": "NQ=="}, "data_base64", "this is a number"),
    (REQUIRED | {"datacontenttype": "a/json;charset=utf-16", "data_base64": "e30="}, "datacontenttype", "in UTF-8"),
]  # fmt: skip


@pytest.mark.parametrize(("cloud_event", "attribute", "reason"), REFUSED)
def test_invalid_cloud_event_is_refused_by_its_attribute(
    cloud_event: dict[str, Any], attribute: str, reason: str
) -> None:
    with pytest.raises(InvalidEvent) as caught:
        parse_batch(json.dumps([event(), cloud_event]).encode(), UNDEFINED)
    assert (caught.value.line, caught.value.attribute) == (2, attribute)
    assert caught.value.reason.startswith(f"#/{attribute}: ")
    assert reason in caught.value.reason


def test_business_event_without_a_time_is_refused_by_that_attribute() -> None:
    with pytest.raises(InvalidEvent, match="#/time: is missing; business events") as caught:
        parsed(event(), BUSINESS)
    assert caught.value.attribute == "time"


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (b'{"id":"1"}', MalformedRequest, "array"),
        (b"[1]", InvalidEvent, "a CloudEvent is one JSON object: Expected `object`, got `int`"),
        (b'[{"id":"1","id":"1"}]', MalformedEvent, "'id' stands twice"),
        (b'[{"data":{"a":1,"a":2}}]', InvalidEvent, "specversion"),
        (b'[{"data":"%b"}]' % (b"x" * (1 << 20)), EventTooLarge, "1048"),
    ],
)
def test_malformed_batch_is_refused(body: bytes, error: type[PenstockError], text: str) -> None:
    with pytest.raises(error, match=text):
        parse_batch(body, UNDEFINED)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        ("%e2%82%ac%41", "€A"),
        ("100%25 %2525", "100% %25"),
        ('"say \\"hi\\" %25"', 'say "hi" %'),
        ('a "b c" d', "a b c d"),
        (" spaces around ", "spaces around"),
        ("", ""),
    ],
)
def test_header_of_binary_mode_is_unquoted_and_percent_decoded_once(value: str, wanted: str) -> None:
    assert (binary({"ce-x": value}).headers or {})["ce_x"] == wanted


@pytest.mark.parametrize(
    ("headers", "attribute", "reason"),
    [
        ({"ce-subject": "50% off"}, "subject", "%25"),
        ({"ce-subject": "%C0%A0"}, "subject", "not UTF-8"),
        ({"ce-subject": "grün".encode("latin-1")}, "subject", "must be ASCII"),
        ({"ce-subject": 'a "b'}, "subject", 'single "'),
        ({"ce-subject": '"' + '\\"' * 30_000}, "subject", 'single "'),
        ({"ce-subject": "%0A"}, "subject", "control characters"),
        ({"ce-id": ""}, "id", "not empty"),
        ({"ce-my_ext": "1"}, "my_ext", "lower-case letters"),
        ({"ce-": "1"}, "", "lower-case letters"),
        ({"ce-datacontenttype": "application/json"}, "datacontenttype", "Content-Type"),
        ({"content-type": "text/plain"}, "datacontenttype", "media type of JSON"),
        ({"content-type": "application/json; charset=utf-16"}, "datacontenttype", "in UTF-8"),
    ],
)
def test_invalid_header_of_binary_mode_is_refused_by_its_name(
    headers: dict[str, str | bytes], attribute: str, reason: str
) -> None:
    with pytest.raises(InvalidEvent) as caught:
        binary(headers)
    assert caught.value.attribute == attribute
    assert reason in caught.value.reason
    assert caught.value.reason.startswith("header '")


def test_body_of_binary_mode_is_the_data_or_absent() -> None:
    assert bytes(binary({}, b'\n{"a": 1}\r\n').data) == b'{"a": 1}'
    assert "data" not in written(binary({"content-type": "application/json"}, b""))
    with pytest.raises(InvalidEvent, match="must be a JSON object, since an event of a feed is one; this is a string"):
        binary({}, b'"text"')
    with pytest.raises(InvalidEvent, match="stands twice"):
        parse_binary([(b"ce-id", b"1"), (b"ce-id", b"1")], b"{}", UNDEFINED)


def test_content_mode_follows_from_the_headers() -> None:
    assert find_content_mode({"content-type": f"{STRUCTURED}; charset=UTF-8", "ce-id": "1"}) == "structured"
    assert find_content_mode({"content-type": BATCHED.upper()}) == "batched"
    assert find_content_mode({"content-type": "application/json", "ce-type": "t"}) == "binary"
    assert find_content_mode({"content-type": "application/json", "ce-subject": "t"}) is None
    for other in ("application/cloudevents+avro", "application/cloudevents", f"{STRUCTURED}; charset=utf-16"):
        with pytest.raises(Unsupported):
            find_content_mode({"content-type": other})


def test_event_that_was_published_otherwise_has_derived_attributes() -> None:
    derived = {
        "specversion": "1.0",
        "id": "3-2-40",
        "source": f"/event-types/{NAME}",
        "type": NAME,
        "datacontenttype": "application/json",
        "time": "2026-11-20T18:00:00.000Z",
    }
    assert written(NewEvent.of(b'{"n": 1.0}')) == derived | {"data": {"n": 1}}
    assert written(NewEvent.of(b"{}", key='k"é')) == derived | {"partitionkey": 'k"é', "data": {}}
    metadata = {"eid": UUID, "occurred_at": TIME, "span_ctx": {"traceparent": "00-1"}}
    data = msgspec.json.encode({"metadata": metadata})
    of_metadata = {"id": UUID, "time": TIME, "traceparent": "00-1", "data": {"metadata": metadata}}
    assert written(NewEvent.of(data)) == derived | of_metadata
    own = {"ce_id": "own", "ce_type": "Own", "ce_subject": "s", "tenant": "blue", "ce_n": "5"}
    shown = {"id": "own", "type": "Own", "subject": "s", "n": "5", "data": {}}
    assert written(NewEvent.of(b"{}", headers=own)) == derived | shown


def test_headers_that_are_no_valid_attributes_are_left_out() -> None:
    plain = written(NewEvent.of(b"{}"))
    wrong = {"ce_time": "yesterday", "ce_source": "a b", "ce_id": "", "ce_Upper": "x", "ce_data": "x", "ce_c": "\n"}
    others = {"ce_specversion": "0.3", "ce_datacontenttype": "text/plain", "cloudevent": "n=integer data=none"}
    assert written(NewEvent.of(b"{}", headers=wrong | others)) == plain
    claims_to_be_one = {
        "ce_specversion": "1.0",
        "cloudevent": "n=integer b=boolean data=none",
        "ce_n": "x",
        "ce_b": "1",
    }
    assert written(NewEvent.of(b'{"a":1}', headers=claims_to_be_one)) == {
        **{name: plain[name] for name in REQUIRED},
        "n": "x",
        "b": "1",
        "data": {"a": 1},
    }
