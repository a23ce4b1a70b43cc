"""Every example of docs/reference/http and docs/python.md is run against a real hub and answers as shown."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from penstock.testing.live_hub import live_hub
from tests.docs.examples import ROOT, Answer, Block, Ids, blocks, parse_answer, run, steady
from tests.exhaustive import exhaustive

HTTP = ROOT / "docs" / "reference" / "http"
_LINKED = re.findall(r"\]\(([\w-]+\.md)", (HTTP / "README.md").read_text(encoding="utf-8"))
PAGES = [HTTP / "README.md", *(HTTP / name for name in dict.fromkeys(_LINKED))]
"""The index, then the other pages in the order in which it links to them."""


@pytest.mark.parametrize("database", ["sqlite", exhaustive("postgres")])
def test_examples_of_the_http_pages_answer_as_shown(
    request: pytest.FixtureRequest, database: str, tmp_path: Path
) -> None:
    wrong, ids = [], Ids()

    with live_hub(request.getfixturevalue(f"{database}_url")) as hub:
        for page, command, shown in ((each, *pair) for each in PAGES for pair in examples(each)):
            printed = ids.as_shown(run(ids.asked(command), port=hub.port, directory=tmp_path), shown)
            if shown.language == "text":
                says, does = steady(shown.text), steady(printed)
            else:
                says, does = parse_answer(shown.text), as_far_as_shown(parse_answer(printed), parse_answer(shown.text))
            if says != does:
                wrong.append(f"{page.name}:{shown.line}\n  says {says}\n  does {does}")

    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("about", ["from penstock", "DataChange[Bus]", "commit_positions", "create_subscription"])
def test_examples_of_the_client_print_the_shown_output(
    sqlite_url: str, capsys: pytest.CaptureFixture[str], about: str
) -> None:
    example, shown = next(pair for pair in pairwise(blocks(ROOT / "docs" / "python.md")) if about in pair[0].text)

    with live_hub(sqlite_url) as hub:
        exec(compile(example.text.replace("localhost:8080", f"localhost:{hub.port}"), "python.md", "exec"), {})

    assert capsys.readouterr().out == shown.text


def test_mounted_hub_of_the_python_page_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [example] = [block for block in blocks(ROOT / "docs" / "python.md") if "FastAPI" in block.text]
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}

    exec(compile(example.text, "python.md", "exec"), namespace)
    with TestClient(namespace["app"]) as client:
        answer = client.get("/hub/health/ready")

    assert answer.json() == {"status": "ready"}


def test_tests_of_a_service_on_the_python_page_pass(pytester: pytest.Pytester) -> None:
    [example] = [block for block in blocks(ROOT / "docs" / "python.md") if "def test_" in block.text]
    pytester.makepyprojecttoml('[tool.pytest]\nfilterwarnings = ["error"]')
    pytester.makepyfile(example.text)

    outcome = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:schemathesis")
    outcome.assert_outcomes(passed=example.text.count("def test_"))


def test_every_http_page_is_linked_from_the_index() -> None:
    assert sorted(PAGES) == sorted(HTTP.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_an_http_page_have_answers(page: Path) -> None:
    commands = [block for block in blocks(page) if block.language in ("sh", "python")]

    assert [command for command, _ in examples(page)] == commands


def examples(page: Path) -> list[tuple[Block, Block]]:
    """Return each command of *page* with the answer that follows it."""
    return [(block, after) for block, after in pairwise(blocks(page)) if after.language in ("http", "text")]


def as_far_as_shown(answer: Answer, shown: Answer) -> Answer:
    """Return *answer* with only the headers, and of a problem only the members, that the page shows."""
    body = answer.body
    if answer.headers.get("content-type") == "application/problem+json":
        body = {name: value for name, value in body.items() if name in shown.body}
    return answer._replace(
        headers={name: value for name, value in answer.headers.items() if name in shown.headers}, body=body
    )
