from pathlib import Path

import pytest

from penstock.errors import BadParameter
from penstock.spark.authorization import authorization


def test_no_token_file_sends_no_authorization_header() -> None:
    assert authorization(None) == {}


def test_token_file_is_read_for_each_request(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    assert authorization(str(file)) == {"Authorization": "Bearer first"}

    file.write_text("second")
    assert authorization(str(file)) == {"Authorization": "Bearer second"}


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ("", "there is none in it"),
        ("geheim geheim", "it has spaces or several lines"),
        ("geheim\ngeheim", "it has spaces or several lines"),
        ("gehéim", "it is not ASCII"),
    ],
)
def test_malformed_token_is_refused_and_not_shown(tmp_path: Path, held: str, said: str) -> None:
    file = tmp_path / "token"
    file.write_text(held, encoding="utf-8")

    with pytest.raises(BadParameter, match=said) as refused:
        authorization(str(file))

    assert "option tokenFile is" in str(refused.value)
    assert "geh" not in str(refused.value) + repr(refused.value.fields)


def test_missing_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match=r"option tokenFile is '.*/nowhere'; allowed: .*: No such file"):
        authorization(str(tmp_path / "nowhere"))
