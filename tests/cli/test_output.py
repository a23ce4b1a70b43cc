"""Commands write JSON as UTF-8 and text as far as the terminal can show it, whatever stdout and the locale are."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import PENSTOCK, Command
from tests.exhaustive import exhaustive

SAID = "Zoë 😀"
EVENT = json.dumps({"a": SAID}, ensure_ascii=False)
NO_UTF8 = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


def run_bytes(command: Command, *arguments: str, **environment: str) -> tuple[int, bytes, str]:
    done = subprocess.run(
        [*PENSTOCK, *arguments],
        cwd=command.directory,
        env=command.environment | environment,
        capture_output=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.fixture
def words(at_hub: Command) -> str:
    at_hub("event-type", "create", "words.said")
    assert at_hub("publish", "words.said", stdin=EVENT).status == 0
    return "words.said"


@pytest.mark.parametrize(
    ("locale", "encoding", "shown"),
    [
        ({"PYTHONIOENCODING": "cp1252"}, "cp1252", "Zoë ?"),
        (NO_UTF8, "ascii", "Zo? ?"),
    ],
    ids=["cp1252", "C"],
)
def test_event_is_whole_in_json_and_replaced_in_text_if_stdout_is_not_utf8(
    at_hub: Command, words: str, locale: dict[str, str], encoding: str, shown: str
) -> None:
    tail = ("tail", words, "--from", "earliest", "--count", "1")
    as_text = run_bytes(at_hub, *tail, **locale)
    as_json = run_bytes(at_hub, *tail, "-o", "json", **locale)

    assert as_text[0] == as_json[0] == 0, as_text[2] + as_json[2]
    assert f'{{"a": "{shown}"}}' in as_text[1].decode(encoding)
    assert json.loads(as_json[1].decode())["data"] == {"a": SAID}


@pytest.mark.parametrize(
    ("arguments", "status", "shown"),
    [
        exhaustive(("publish", "--help"), 0, "Publish events", id="help"),
        exhaustive(("new", "projector", "projekt"), 0, "README.md", id="new"),
        exhaustive(("migrate", "--print-sql"), 0, "CREATE TABLE", id="migrate"),
        (("event-type", "check", "größe.yaml"), 1, "3 MUST and 1 SHOULD not kept"),
        (("event-type", "show", SAID), 1, "there is no event type 'Zo"),
        (("event-type", "create", "a.b", "--owning-application", SAID, "--url", "http://127.0.0.1:1"), 2, "not UTF-8"),
    ],
)
def test_command_ends_without_a_traceback_if_the_locale_is_ascii(
    penstock: Command, arguments: tuple[str, ...], status: int, shown: str
) -> None:
    definition = f"name: words.said\nowning_application: {SAID}\ncategory: undefined\n"
    (penstock.directory / "größe.yaml").write_text(definition, encoding="utf-8")
    ended, out, err = run_bytes(penstock, *arguments, **NO_UTF8)

    assert "Traceback" not in err
    assert ended == status, err
    assert shown in out.decode() + err


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_command_succeeds_in_silence_if_its_output_is_closed(penstock: Command, unbuffered: str) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    command = [*PENSTOCK, "migrate", "--print-sql"]
    environment = penstock.environment | {"PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(command, env=environment, stdout=theirs, stderr=subprocess.PIPE, check=False)
    os.close(theirs)

    assert (done.returncode, done.stderr) == (0, b"")


def test_command_fails_if_its_output_cannot_be_written(penstock: Command) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*PENSTOCK, "version"], stdout=full, stderr=subprocess.PIPE, check=False)

    assert done.returncode == 1
    assert done.stderr == b"penstock: the output cannot be written: No space left on device\n"


def test_database_does_not_get_the_descriptor_of_a_closed_stdout(penstock: Command) -> None:
    command = f"{' '.join(PENSTOCK)} migrate <&- >&- 2>&-"
    done = subprocess.run(["bash", "-c", command], cwd=penstock.directory, env=penstock.environment, check=False)
    found = penstock("migrate", "-o", "json")

    assert done.returncode == 0
    assert found.json == {"database": "sqlite:///penstock.db", "created": False, "ran": []}
