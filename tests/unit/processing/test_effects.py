from penstock.processing.effects import Effect, effect_id
from penstock.processing.stream_event import StreamEvent

EID = "8c7a2a7e-3f0c-4c57-8a4e-0d5f9f3a1b11"


def event(stream: str = "order-1", index: int = 3, eid: str | None = None) -> StreamEvent:
    raw = b"{}" if eid is None else b'{"metadata":{"eid":"%s"}}' % eid.encode()
    return StreamEvent(stream, index, "placed", raw)


def test_an_effect_has_the_id_of_its_cause_and_its_name() -> None:
    ids = {effect_id(event(eid=EID), "a"), effect_id(event("other", 9, EID), "a"), effect_id(EID, "a")}
    assert len(ids) == 1, "wherever the event is read"
    assert effect_id(EID, "b") not in ids


def test_the_cause_without_an_id_is_known_by_its_place() -> None:
    ids = [effect_id(event(*place), "a") for place in (("order-1", 3), ("order-1", 4), ("order-2", 3), ("order-1", 3))]
    assert len(set(ids)) == 3
    assert ids[0] == ids[3]


def test_a_place_is_one_in_what_numbers_it() -> None:
    places = (StreamEvent("order-1", 3, "placed", b"{}", numbering=numbering) for numbering in ("a/0@1", "a/1@1", ""))
    assert len({effect_id(place, "a") for place in places}) == 3


def test_the_event_type_stands_for_a_name() -> None:
    assert Effect("mail.sent", {}).called == "mail.sent"
    assert Effect("mail.sent", {}, "to buyer").called == "to buyer"
