import uuid

import pytest

from penstock.core.proof import ParkedSpan, is_proven, parked_span, parked_token_of, token_of

SECRET = bytes(range(16))
PLACE = ("order.placed", 3)


def test_a_token_proves_its_own_cursor() -> None:
    token = token_of(SECRET, PLACE, 7)

    assert is_proven(token, SECRET, PLACE, 7)
    assert str(uuid.UUID(token)) == token, "clients may take it for what Nakadi's is"


@pytest.mark.parametrize(
    ("secret", "place", "position"),
    [
        (b"another", PLACE, 7),
        (SECRET, ("order.sent", 3), 7),
        (SECRET, ("order.placed", 4), 7),
        (SECRET, PLACE, 8),
        (SECRET, ("7 order.placed", 3), 0),
        (SECRET, ("order.placed", 37), 0),
    ],
    ids=["another stream", "event type", "partition", "position", "what runs together", "numbers that run together"],
)
def test_a_token_proves_no_other_cursor(secret: bytes, place: tuple[str, int], position: int) -> None:
    assert not is_proven(token_of(SECRET, PLACE, 7), secret, place, position)


@pytest.mark.parametrize("token", ["", "x", "é", "\U0001f6b0" * 9, "\x00", "0" * 36], ids=repr)
def test_what_is_no_token_proves_nothing(token: str) -> None:
    assert not is_proven(token, SECRET, PLACE, 7)
    assert parked_span(token, SECRET) is None


def test_a_token_of_parked_events_names_them() -> None:
    span = ParkedSpan((1 << 62) + 1, 1 << 61)

    assert parked_span(parked_token_of(SECRET, span), SECRET) == span


def test_no_cursor_proves_parked_events_and_they_prove_no_cursor() -> None:
    token = parked_token_of(SECRET, ParkedSpan(3, 17))

    assert parked_span(token_of(SECRET, ("parked", 3), 17), SECRET) is None
    assert not is_proven(token, SECRET, ("parked", 3), 17)


@pytest.mark.parametrize(
    "change",
    [
        lambda token: token.replace("parked-3-", "parked-4-"),
        lambda token: token.replace("-17-", "-18-"),
        lambda token: token.replace("-17-", "-017-"),
        lambda token: token.replace("-17-", "-+17-"),
        lambda token: token.replace("-17-", "-\N{ARABIC-INDIC DIGIT ONE}7-"),
        lambda token: token.replace("parked", "Parked"),
        lambda token: token[:-1],
        lambda token: token + "0",
        lambda token: token.upper(),
        lambda token: token.rpartition("parked-3-17-")[0],
        lambda _: "parked-3-17",
        lambda _: "parked-3-17-",
        lambda _: "parked-a-b-c",
        lambda _: "parked",
        lambda _: f"parked-{'9' * 5_000}-1-x",
    ],
    ids=[
        "another key", "further", "with a nought", "with a sign", "in other digits", "in other letters", "cut",
        "longer", "in capitals", "empty", "without proof", "with an empty one", "without numbers", "a name alone",
        "a huge number",
    ],
)  # fmt: skip
def test_a_token_of_parked_events_cannot_be_made_up(change: object) -> None:
    assert callable(change)

    assert parked_span(change(parked_token_of(SECRET, ParkedSpan(3, 17))), SECRET) is None


def test_a_token_of_parked_events_is_of_its_own_stream() -> None:
    assert parked_span(parked_token_of(b"another", ParkedSpan(3, 17)), SECRET) is None
