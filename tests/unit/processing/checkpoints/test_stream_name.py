"""Any text is a name that can be kept, and is found as it was."""

from hypothesis import example, given, strategies

from penstock.processing.checkpoints.stream_name import digest, kept, name_of

ANY = strategies.text(strategies.characters())  # Lone surrogates, too.


@given(ANY)
@example("a\0b")
@example("\ud800")
@example("\\0000")
@example("\\005c0000")
def test_a_name_is_found_as_it_was(name: str) -> None:
    assert name_of(kept(name)) == name
    assert "\0" not in kept(name)
    assert kept(name).encode().decode() == kept(name)


def test_ordinary_names_are_kept_as_they_are() -> None:
    assert kept("order.placed-é 🚚\n") == "order.placed-é 🚚\n"


@given(ANY, ANY)
def test_a_digest_stands_for_one_name(one: str, other: str) -> None:
    assert (digest(one) == digest(other)) == (one == other)
    assert len(digest(one)) == 64
