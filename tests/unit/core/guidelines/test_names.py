import pytest

from penstock.core.guidelines.names import says_entity_id, says_process_id, says_time, words


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("", ()),
        ("orderID", ("order", "id")),
        ("HTMLBody", ("html", "body")),
        ("e-mail", ("e", "mail")),
        ("Straße_2b", ("strasse", "2", "b")),
        ("Größe", ("grosse",)),
        ("имя_2", ("имя", "2")),
        ("__", ()),
    ],
)
def test_words(name: str, found: tuple[str, ...]) -> None:
    assert words(name) == found


@pytest.mark.parametrize(
    ("name", "is_time"),
    [("created_at", True), ("eventTimestamp", True), ("orderDate", True), ("date_of_birth", False), ("format", False)],
)
def test_times(name: str, is_time: bool) -> None:
    assert says_time(name) == is_time


@pytest.mark.parametrize(("name", "is_one"), [("bpId", True), ("business_process_id", True), ("processor_id", False)])
def test_process_ids(name: str, is_one: bool) -> None:
    assert says_process_id(name) == is_one


@pytest.mark.parametrize(
    ("name", "event_type", "is_one"),
    [
        ("category_id", "shop.categories", True),
        ("address_id", "addresses", True),
        ("box_id", "boxes", True),
        ("status_id", "orders", False),
        ("number", "orders", False),
        ("sku", "stock", True),
        ("", "orders", False),
    ],
)
def test_entity_ids(name: str, event_type: str, is_one: bool) -> None:
    assert says_entity_id(name, event_type) == is_one
