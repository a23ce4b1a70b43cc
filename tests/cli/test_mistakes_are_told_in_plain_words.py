"""What a command says that was used wrongly. Mistakes in a file's name or a URL are told beside what uses them."""

import pytest

from tests.cli.command import Command


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        (("publish", "x", "--batch", "ten"), "Invalid value for '--batch': 'ten' is not a whole number"),
        (("publish", "x", "--batch", "0"), "Invalid value for '--batch': 0 is less than 1"),
        (("serve", "--port", "99999"), "99999 is more than 65535"),
        (("tail", "x", "--from", "middle"), "Invalid value for '--from': 'middle' is not one of 'first', 'last'."),
        (("rejected", "list", "7", "eight"), "Invalid value for 'ID': 'eight' is not a whole number"),
        (("publish",), "Missing argument 'EVENT_TYPE'."),
        (("event-type", "show"), "Missing argument 'NAME'."),
        (("tail", "x", "--bogus"), "No such option: --bogus"),
        (("pblish",), "No such command 'pblish'. Did you mean 'publish'?"),
        (("event-type", "create", "--file", "none.json"), "none.json cannot be read: No such file or directory"),
    ],
)
def test_a_mistake_is_named_with_what_was_given(penstock: Command, mistake: tuple[str, ...], says: str) -> None:
    refused = penstock(*mistake, COLUMNS="200")

    assert refused.status == 2
    assert f": {says}" in refused.err
    assert "Input should" not in refused.err
    assert "Errno" not in refused.err


def test_a_mistake_in_the_environment_names_its_variable(penstock: Command) -> None:
    refused = penstock("serve", PENSTOCK_MIGRATE="perhaps", COLUMNS="200")

    assert refused.status == 2
    assert "(env var: 'PENSTOCK_MIGRATE'): 'perhaps' is neither true nor false" in refused.err


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        (("publish",), "publish [OPTIONS] {EVENT_TYPE} [FILE]"),
        (("event-type", "create"), "event-type create [OPTIONS] [NAME]"),
        (("rejected", "list"), "rejected list [OPTIONS] [ID]..."),
        (("rejected", "retry"), "rejected retry [OPTIONS] [ID]..."),
        (("rejected", "delete"), "rejected delete [OPTIONS] [ID]..."),
    ],
)
def test_what_may_be_left_out_has_one_pair_of_brackets(penstock: Command, command: tuple[str, ...], usage: str) -> None:
    shown = penstock(*command, "--help", COLUMNS="200").out

    assert shown.splitlines()[0].endswith(f" penstock {usage}")
