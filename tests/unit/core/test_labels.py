import pytest

from penstock.core.labels import wrong_annotations, wrong_labels

GOOD_KEYS = ["a", "A-b_c.9", "team/contact", "datalake.example.org/on", "x" * 63, "a" * 253 + "/n"]
BAD_KEYS = {
    "": "Key cannot be empty",
    "-a": "Key name should start and end with a letter or a digit",
    "a-": "Key name should start and end",
    "a b": "Key name should start and end",
    "ä": "Key name should start and end",
    "x" * 64: "Key name cannot be longer than 63 characters",
    "/a": "Key prefix should be a DNS name",
    "Team/a": "Key prefix should be a DNS name in lower case",
    "a..b/c": "Key prefix should be a DNS name",
    "a/b/c": "Key prefix should be a DNS name",
    "team/": "Key name should start and end",
    "a" * 254 + "/n": "Key prefix cannot be longer than 253 characters",
}


@pytest.mark.parametrize("key", GOOD_KEYS, ids=lambda key: key[:12])
def test_a_key_is_a_name_maybe_with_a_prefix(key: str) -> None:
    assert not [*wrong_annotations({key: ""}), *wrong_labels({key: ""})]


@pytest.mark.parametrize(("key", "says"), BAD_KEYS.items(), ids=lambda text: text[:12])
def test_nothing_else_is_a_key(key: str, says: str) -> None:
    for found in (list(wrong_annotations({key: "x"})), list(wrong_labels({key: "x"}))):
        assert any(wrong[0] == key and says in wrong[1] for wrong in found)


def test_an_empty_key_is_told_in_two_ways() -> None:
    first, second = wrong_labels({"": "x"})

    assert first == ("", "Key cannot be empty")
    assert second[1].startswith("Key name should start and end with a letter or a digit")


@pytest.mark.parametrize("value", ["any text, with: signs", "", "ä" * 1000])
def test_an_annotation_says_anything_up_to_a_thousand_characters(value: str) -> None:
    assert not list(wrong_annotations({"a": value}))


@pytest.mark.parametrize("value", ["x" * 1001, 5, None, ["a"]], ids=repr)
def test_an_annotation_is_no_more_than_that(value: object) -> None:
    [(key, _)] = wrong_annotations({"a": value})
    assert key == "a"


@pytest.mark.parametrize("value", ["", "a", "A-b_c.9", "x" * 63])
def test_a_label_is_empty_or_a_name(value: str) -> None:
    assert not list(wrong_labels({"a": value}))


@pytest.mark.parametrize("value", ["-a", "a b", "ä", "x" * 64, 5, None], ids=repr)
def test_a_label_is_nothing_else(value: object) -> None:
    [(key, _)] = wrong_labels({"a": value})
    assert key == "a"
