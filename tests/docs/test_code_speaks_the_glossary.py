"""Names of the code use none of the words that docs/glossary.md bans."""

import ast
import re
from collections.abc import Iterator

from tests.docs.examples import ROOT

SOURCES = sorted((ROOT / "src").rglob("*.py"))
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
WORDS, BANNED = GLOSSARY.split("## Words that we do not use")

ALLOWED = {
    "message": (
        "/errors/",
        "wire/log/arrow.py",
        "server/http/http1.py",
        "spark/foreign/messagedb.py",
        "server_sent_events.py",
    ),  # An error's text; Arrow's word for a part of its stream; HTTP's and ASGI's for a request; MessageDB; the DOM's.
    "topic": ("kafka.py", "cli/spark.py"),  # Kafka's own word for what it keeps records in.
}
"""By banned word: parts of the paths of files that may use it."""


VAGUE = {"util", "helper", "manager", "base", "common", "impl", "misc"}
"""Not for what is defined at length; for a value inside a function they may be just right."""


def banned_words() -> set[str]:
    rows = re.findall(r"^\| (`.*?`) \|", BANNED, re.MULTILINE)
    return {word for row in rows for word in re.findall(r"`(\w+)`", row)}


def test_glossary_bans_words() -> None:
    assert {"topic", "message", "bookmark", "util", "helper", "manager"} <= banned_words()


def test_names_use_no_word_that_the_glossary_bans() -> None:
    banned = banned_words()
    wrong = [
        f"{source.relative_to(ROOT)}:{line}: {name}"
        for source in SOURCES
        for name, line, is_value in defined(ast.parse(source.read_text(encoding="utf-8")))
        if any(
            not any(part in source.as_posix() for part in ALLOWED.get(word, ())) and not (is_value and word in VAGUE)
            for word in words(name) & banned
        )
    ]

    assert not wrong, "docs/glossary.md has other words for:\n" + "\n".join(wrong)


def test_words_of_the_glossary_are_listed_once() -> None:
    listed = re.findall(r"^- \*\*(.*?)\*\*: ", WORDS, re.MULTILINE)

    assert len(listed) > 60
    assert len(listed) == len(set(listed))


def defined(tree: ast.Module) -> Iterator[tuple[str, int, bool]]:
    """Yield each name that a module defines, with its line, and with True for the name of a value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno, False
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno, True
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno, True
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno, True


def words(name: str) -> set[str]:
    """Return the words that *name* is made of, each in the singular too."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower().split("_")
    return {*spaced, *(word.removesuffix("s") for word in spaced)}
