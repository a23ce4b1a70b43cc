"""YAML is read by its version 1.2, and refused where it is ambiguous or unsafe."""

from typing import Any

import pytest

from penstock.cli.definitions.document import LEVELS_MAX, VALUES_MAX, Unreadable, yaml_documents


def value(text: str) -> Any:
    [document] = yaml_documents(text, "f.yaml")
    return document.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yes", "yes"),
        ("off", "off"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T10:00:00Z", "2024-01-01T10:00:00Z"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("0x1f", 31),
        ("0o17", 15),
        ("017", 17),
        ("-7", -7),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("True", True),
        ("false", False),
        ("~", None),
        ("Null", None),
        ("'5'", "5"),
        ('"true"', "true"),
        ("!!str 5", "5"),
        ("!!int '5'", 5),
        ("!!float 5.0", 5.0),
        ("!!bool true", True),
        ("!!null null", None),
        ("|\n  two\n  lines", "two\nlines\n"),
        ("", None),
        ("ä€𝄞", "ä€𝄞"),
        ("12345678901234567890", 12345678901234567890),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, expected: Any) -> None:
    found = value(f"a: {text}\n")["a"]

    assert found == expected
    assert type(found) is type(expected)


def test_keys_are_texts_as_they_are_written() -> None:
    assert value("on: 1\nno: 2\n200: 3\n1.0: 4\n2024-01-01: 5\ntrue: 6\n~: 7\n'': 8") == {
        "on": 1,
        "no": 2,
        "200": 3,
        "1.0": 4,
        "2024-01-01": 5,
        "true": 6,
        "~": 7,
        "": 8,
    }


def test_documents_are_parted_and_empty_ones_passed_over() -> None:
    documents = yaml_documents("# nothing\n---\na: 1\n---\n---\n- 2\n...\n", "f.yaml")

    assert [document.value for document in documents] == [{"a": 1}, [2]]
    assert yaml_documents("# nothing\n", "f.yaml") == []


def test_every_value_has_its_line() -> None:
    [_, document] = yaml_documents("a: 1\n---\nname: x\nlist:\n  - 1\n  -\n    b: {c: 2}\n", "f.yaml")

    assert document.lines == {
        (): 3,
        ("name",): 3,
        ("list",): 4,
        ("list", "0"): 5,
        ("list", "1"): 7,
        ("list", "1", "b"): 7,
        ("list", "1", "b", "c"): 7,
    }


def test_aliases_repeat_and_merges_are_overridden() -> None:
    text = "base: &base {a: 1, b: 2}\nmore: &more {b: 3, c: 4}\none:\n  <<: *base\n  b: 5\ntwo:\n  <<: [*base, *more]\n"

    assert value(text)["one"] == {"a": 1, "b": 5}
    assert value(text)["two"] == {"a": 1, "b": 2, "c": 4}
    assert value("a: &a [1]\nb: *a\n'<<': 1") == {"a": [1], "b": [1], "<<": 1}


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: 1\nb: 2\na: 3", 3, "the key 'a' stands twice, first on line 1"),
        ("? [a]\n: b", 1, "a key is a text"),
        ("a: &x\n  b: *x", 1, "an alias refers to what it stands in"),
        ("a: *x", 1, "not valid YAML: found undefined alias"),
        ("a: .inf", 1, "JSON has no number .inf; put it in quotes"),
        ("a: .NaN", 1, "JSON has no number .NaN"),
        ("a: 1e999", 1, "the number 1e999 is larger"),
        ("a: !!int x", 1, "'x' is no !!int"),
        ("a: !!binary eA==", 1, "the tag tag:yaml.org,2002:binary is not known here"),
        ("a: !!python/name:os.system x", 1, "is not known here"),
        ("a: !mine [1]", 1, "the tag !mine is not known here"),
        ("a:\n  <<: 5", 2, "`<<` takes an object"),
        ("a: b: c", 1, "not valid YAML"),
        ("a:\n\t- b", 2, "not valid YAML"),
        ("a: b\nc: \x07", 2, "not valid YAML"),
        ("[" * (LEVELS_MAX + 2) + "]" * (LEVELS_MAX + 2), 1, "nested too deeply"),
        ("[" * 200_000, 1, "nested too deeply"),
    ],
)
def test_invalid_yaml_is_refused_with_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(Unreadable) as refused:
        yaml_documents(text, "f.yaml")

    assert refused.value.place == ("f.yaml", line)
    assert says in refused.value.reason


def test_exponential_aliases_are_refused() -> None:
    lists = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]

    with pytest.raises(Unreadable, match=f"more than {VALUES_MAX} values"):
        yaml_documents("\n".join(["a0: &a0 [x, x, x]", *lists]), "f.yaml")
