import pytest

from penstock.server.accept import weights


@pytest.mark.parametrize("accept", [None, "", ",", " ; q=1"])
def test_who_names_nothing_accepts_nothing_in_particular(accept: str | None) -> None:
    assert weights(accept) == {}


def test_names_are_in_small_letters_and_have_a_weight_of_their_own() -> None:
    assert weights("A/B;v=1;q=0.25 , */*;q=0.1,c") == {"a/b": 0.25, "*/*": 0.1, "c": 1.0}
