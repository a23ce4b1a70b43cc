"""Every example of docs/http.md and docs/python.md is run against a real hub, in its order, and answers as shown."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from penstock.testing.live_hub import live_hub
from tests.docs.examples import ROOT, Answer, Block, Ids, blocks, parse_answer, run, steady

PAGE = ROOT / "docs" / "http.md"


def test_every_example_of_the_http_page_answers_as_shown(database_url: str, tmp_path: Path) -> None:
    wrong, ids = [], Ids()

    with live_hub(database_url) as hub:
        for command, shown in examples():
            printed = ids.as_shown(run(ids.asked(command), port=hub.port, directory=tmp_path), shown)
            if shown.language == "text":
                says, does = shown.text, steady(printed)
            else:
                says, does = parse_answer(shown.text), as_far_as_shown(parse_answer(printed), parse_answer(shown.text))
            if says != does:
                wrong.append(f"{PAGE.name}:{shown.line}\n  says {says}\n  does {does}")

    assert not wrong, "\n".join(wrong)


def test_the_client_example_prints_what_is_shown(sqlite_url: str, tmp_path: Path) -> None:
    example, shown = blocks(ROOT / "docs" / "python.md")[:2]

    with live_hub(sqlite_url) as hub:
        printed = run(example, port=hub.port, directory=tmp_path)

    assert printed == shown.text


@pytest.mark.parametrize("about", ["DataChange[Bus]", "commit_positions", "hub.subscriptions.reset"])
def test_a_later_example_of_the_client_prints_what_is_shown(sqlite_url: str, tmp_path: Path, about: str) -> None:
    [(example, shown)] = [pair for pair in pairwise(blocks(ROOT / "docs" / "python.md")) if about in pair[0].text]

    with live_hub(sqlite_url) as hub:
        printed = run(example, port=hub.port, directory=tmp_path)

    assert printed == shown.text


def test_the_mounted_hub_of_the_python_page_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [example] = [block for block in blocks(ROOT / "docs" / "python.md") if "FastAPI" in block.text]
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}

    exec(compile(example.text, "python.md", "exec"), namespace)
    with TestClient(namespace["app"]) as client:
        answer = client.get("/hub/health/ready")

    assert answer.json() == {"status": "ready"}


def test_the_tests_of_a_service_on_the_python_page_pass(pytester: pytest.Pytester) -> None:
    [example] = [block for block in blocks(ROOT / "docs" / "python.md") if "def test_" in block.text]
    pytester.makepyprojecttoml('[tool.pytest]\nfilterwarnings = ["error"]')
    pytester.makepyfile(example.text)

    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=example.text.count("def test_"))


def test_every_command_of_the_http_page_shows_its_answer() -> None:
    commands = [block for block in blocks(PAGE) if block.language in ("sh", "python")]

    assert [command for command, _ in examples()] == commands


def examples() -> list[tuple[Block, Block]]:
    """Return each command with the answer that follows it."""
    return [(block, after) for block, after in pairwise(blocks(PAGE)) if after.language in ("http", "text")]


def as_far_as_shown(answer: Answer, shown: Answer) -> Answer:
    """Return *answer* with the headers alone that the page shows."""
    return answer._replace(headers={name: value for name, value in answer.headers.items() if name in shown.headers})
