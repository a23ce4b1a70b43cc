import pytest

from penstock.cli.lines import EventLines
from penstock.core.events.event import NewEvent
from penstock.errors import EventTooLarge, InvalidEvent


def datas(events: list[NewEvent]) -> list[bytes]:
    return [bytes(event.data) for event in events]


def test_plain_events_keep_their_bytes_and_the_form_of_lines_can_be_given() -> None:
    assert datas(list(EventLines([b'{"a": 1.50}\n', b"\r\n", b'{"b":2}'], "auto"))) == [b'{"a": 1.50}', b'{"b":2}']

    assert datas(list(EventLines([b'{"data":{"a":1}}\n'], "events"))) == [b'{"data":{"a":1}}']
    with pytest.raises(InvalidEvent, match="a feed line is"):
        list(EventLines([b'{"a":1}\n'], "feed"))


def test_first_line_decides_the_form_of_all_lines() -> None:
    feed = list(EventLines([b'{"data":{"a":1},"key":"k","partition":2}\n', b'{"partition":2,"cursor":"x"}\n'], "auto"))
    change = list(EventLines([b'{"data":{"a":1},"data_type":"t","data_op":"C"}\n', b'{"data":{"a":1}}\n'], "auto"))

    assert (datas(feed), feed[0].key, feed[0].partition) == ([b'{"a":1}'], "k", 2)
    assert datas(change)[1] == b'{"data":{"a":1}}'
    page = list(EventLines([b'{"partition":0,"cursor":"x"}\n', b'{"partition":0,"data":{"a":1}}\n'], "auto"))
    assert datas(page) == [b'{"a":1}']


def test_key_can_be_a_field_of_the_event() -> None:
    plain = list(EventLines([b'{"customer":{"id":7}}\n'], "auto", "customer.id"))
    feed = list(EventLines([b'{"data":{"id":"x"},"key":"other","headers":{"h":"v"}}\n'], "auto", "id"))

    assert plain[0].key == "7"
    assert (feed[0].key, feed[0].headers) == ("x", {"h": "v"})


BAD = (b"{bad", b"[1]", b'{"a":1,"a":2}', b'"text"', b"[" * 100_000, b'{"fill":"%b"}' % (b"x" * 1_000_000))


@pytest.mark.parametrize("line", BAD, ids=lambda line: line[:9].decode())
def test_invalid_or_oversized_line_is_refused_with_its_number(line: bytes) -> None:
    with pytest.raises(EventTooLarge if b"fill" in line else InvalidEvent) as refused:
        list(EventLines([b"\n", b'{"id":1}\n', line], "auto"))

    assert (refused.value.fields["at"], refused.value.line) == (3, 2)


@pytest.mark.parametrize("twice", [b'"key":"a","key":"b"', b'"headers":{"x":"1","x":"2"}', b'"data":{}'])
def test_duplicate_member_of_a_feed_line_is_refused(twice: bytes) -> None:
    with pytest.raises(InvalidEvent, match="stands twice"):
        list(EventLines([b'{"data":{"a":1},%b}' % twice], "auto"))


@pytest.mark.parametrize("lead", [b"", b'{"data":{"id":1}}\n'])
def test_invalid_utf8_is_refused_with_its_place(lead: bytes) -> None:
    line = '{"data":{"name":"\N{LATIN SMALL LETTER E WITH ACUTE}"}}\n'.encode("latin-1")

    with pytest.raises(InvalidEvent) as refused:
        list(EventLines([b"\n", lead, line], "auto"))

    place = f"byte 18 of the line (E9; byte {len(lead) + 19} of the input)"
    assert refused.value.reason == f"{place} is not UTF-8"


def test_byte_order_mark_is_refused_with_advice() -> None:
    advice = {b"": "`tail -c +4 FILE` gives the file without it", b"{}\n": "take those three bytes out"}

    for before, remedy in advice.items():
        with pytest.raises(InvalidEvent) as refused:
            list(EventLines([*[before] * bool(before), b"\xef\xbb\xbf{}\n"], "auto"))

        assert refused.value.reason.startswith("it begins with a UTF-8 byte order mark (EF BB BF)")
        assert refused.value.reason.endswith(remedy)


def test_byte_order_mark_before_the_first_read_line_is_ignored() -> None:
    lines = [b'\xef\xbb\xbf{"data":{"a":1}}\n', b'{"data":{"a":2}}\n']

    assert datas(list(EventLines(lines, "auto", first=2))) == [b'{"a":2}']


def test_empty_and_skipped_lines_count_for_numbers_and_bytes_only() -> None:
    lines = EventLines([b"\n", b'{"a":1}\n', b"\n", b"\n", b'{"a":2}\n', b'{"a":3}\n', b"\n"], "auto")
    later = EventLines([b"{bad\n", b"\n", b'{"a":1}\n', b"\n", b'{"a":2}\n'], "auto", first=3)

    assert (len(list(lines)), [lines.number(event) for event in (1, 2, 3)], lines.byte_count) == (3, [2, 5, 6], 28)
    assert datas(list(later)) == [b'{"a":1}', b'{"a":2}']
    assert ([later.number(event) for event in (1, 2)], later.byte_count) == ([3, 5], 23)
