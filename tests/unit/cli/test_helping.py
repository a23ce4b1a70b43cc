from typer.testing import CliRunner

from penstock.cli.helping import examples, group, prose

WHAT = "Count what is there, one by one and until nothing is left that was not counted, or Ctrl-C. All of it"


def test_examples_are_shown_as_they_are_typed() -> None:
    app = group("Count.", "jq '.[]' x | penstock count a-very-long-name of-what-is-there-to-be-counted --one-by-one")
    app.command("one")(lambda: None)
    app.command("two")(lambda: None)

    shown = CliRunner().invoke(app, ["--help"]).stdout

    assert shown.endswith(
        "  Examples:\n    $ jq '.[]' x | penstock count a-very-long-name of-what-is-there-to-be-counted --one-by-one\n"
    )
    assert examples() is None


def test_list_of_commands_has_their_full_summaries() -> None:
    app = group("Count.")
    app.command("one", help=f"{WHAT}.\n\nNot that.")(lambda: None)
    app.command("two", help="Two.")(lambda: None)

    shown = CliRunner().invoke(app, ["--help"]).stdout

    listed = shown.partition("Commands:\n")[2]
    assert " ".join(listed.split()) == f"one {WHAT}. two Two."
    assert max(map(len, shown.splitlines())) <= 80


def test_paragraphs_are_unbroken() -> None:
    def command() -> None:
        """Do it.

        First line
        second line.
        """

    assert prose(command) == "Do it.\n\nFirst line second line."
