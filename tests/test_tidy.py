"""The house style, as a test. Every message names the file and what to do."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "penstock"
SOURCES = sorted((ROOT / "src").rglob("*.py"))
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
STATEMENTS = sorted(PACKAGE.rglob("*.sql"))

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
WORDS, BANNED = GLOSSARY.split("## Words that we do not use")

FUNCTION_LINES_MAX = 60
VAGUE_FILES = {"base", "common", "helper", "helpers", "impl", "manager", "misc", "types", "util", "utils"}
VAGUE = {"util", "helper", "manager", "base", "common", "impl", "misc"}
"""Words not for what is defined at length; for a value inside a function they may be just right."""
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


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_architecture_page_counts_the_methods_of_each_port() -> None:
    counts: dict[str, int] = {}
    for path in (PACKAGE / "storage").rglob("*.py"):
        capability = path.relative_to(PACKAGE / "storage").parts[0].removesuffix(".py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Repository"):
                methods = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name[0] != "_"]
                counts[capability] = counts.get(capability, 0) + len(methods)

    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    sentence = re.search(r"They have (\d+) methods: (.*)\.", page)
    assert sentence is not None
    stated = {name: int(count) for name, count in re.findall(r"`(\w+)` (\d+)", sentence[2])}
    assert stated == counts, "correct the numbers in docs/architecture.md"
    assert int(sentence[1]) == sum(counts.values()), "correct the sum in docs/architecture.md"


def banned_words() -> set[str]:
    rows = re.findall(r"^\| (`.*?`) \|", BANNED, re.MULTILINE)
    return {word for row in rows for word in re.findall(r"`(\w+)`", row)}


@functools.cache
def words(name: str) -> frozenset[str]:
    """Return the words that *name* is made of, each in the singular too."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower().split("_")
    return frozenset({*spaced, *(word.removesuffix("s") for word in spaced)})


def name_of(node: ast.AST) -> tuple[str, bool]:
    """Return the name that the node defines, if it does, and whether it is that of a value."""
    if isinstance(node, Definition):
        return node.name, False
    if isinstance(node, ast.arg):
        return node.arg, True
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id, True
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.attr, True
    return "", True


def public(tree: ast.Module) -> Iterator[tuple[str, Definition]]:
    """Return a module's public classes, functions and methods; the names of tests are sentences by themselves.

    Of overloads, the function that they stand for has the docstring.
    """
    for node in tree.body:
        if not isinstance(node, Definition):
            continue
        is_overload = any(isinstance(each, ast.Name) and each.id == "overload" for each in node.decorator_list)
        if not node.name.startswith(("_", "test_")) and not is_overload:
            yield node.name, node
            if isinstance(node, ast.ClassDef):
                members = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
                yield from (
                    (f"{node.name}.{each.name}", each) for each in members if not each.name.startswith(("_", "test_"))
                )


def line_count(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many lines the body has; the options of a command make a long signature, and no long function."""
    assert node.end_lineno
    return node.end_lineno - node.body[0].lineno + 1


def depends_on_the_locale(call: ast.Call) -> bool:
    """Return whether *call* reads or writes text in the encoding of the locale, which is not UTF-8 everywhere."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    named = {keyword.arg for keyword in call.keywords}
    modes = {value.value for value in call.args if isinstance(value, ast.Constant)} & {"r", "w", "a", "x", "r+", "w+"}
    reads_or_writes = (
        function in {"read_text", "write_text", "FileHandler", "TextIOWrapper"}
        or (function in {"open", "fdopen"} and bool(modes))
        or bool(named & {"text", "universal_newlines"})
    )
    return reads_or_writes and "encoding" not in named


def find_wrong(path: Path, banned: set[str]) -> Iterator[str]:
    """Yield what is wrong with a file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    forbidden = {word for word in banned if not any(part in path.as_posix() for part in ALLOWED.get(word, ()))}

    if path.stem in VAGUE_FILES:
        yield "it has a name that says nothing: name it after what it holds"
    if not (ast.get_docstring(tree) or "").partition("\n")[0].endswith((".", ":", "?")):
        yield "its first line is no sentence that says what it is"
    for name, public_node in public(tree):
        if not ast.get_docstring(public_node):
            yield f"{name} has no docstring"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and depends_on_the_locale(node):
            yield f"line {node.lineno}: name the encoding, which is another one in other locales"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and line_count(node) > FUNCTION_LINES_MAX:
            yield f"{node.name}: longer than {FUNCTION_LINES_MAX} lines"
        name, is_value = name_of(node)
        if found := words(name) & (forbidden - VAGUE if is_value else forbidden):
            yield f"{name}: the glossary has another word for {', '.join(found)}"


def test_source_files_are_tidy() -> None:
    banned = banned_words()
    wrong = [f"{relative(path)}: {each}" for path in SOURCES for each in find_wrong(path, banned)]

    assert not wrong, "\n" + "\n".join(wrong)


def test_glossary_bans_words() -> None:
    assert {"topic", "message", "bookmark"} | VAGUE <= banned_words()


def test_words_of_the_glossary_are_listed_once() -> None:
    listed = re.findall(r"^- \*\*(.*?)\*\*: ", WORDS, re.MULTILINE)

    assert len(listed) > 60
    assert len(listed) == len(set(listed))


def test_sql_says_first_what_it_promises() -> None:
    wrong = [relative(path) for path in STATEMENTS if not path.read_text(encoding="utf-8").startswith("-- ")]

    assert not wrong, f"{wrong} do not begin with a comment that says what they do"


def test_public_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            places.setdefault(name, []).append(relative(path))

    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_import_rules_are_as_strict_as_the_tree_allows() -> None:
    rules = (ROOT / "pyproject.toml").read_text()
    awaited = set(re.findall(r'"penstock\.(\w+)\.\*\*"', rules)) | set(re.findall(r'"?\((\w+)\)(?= \||")', rules))
    there = sorted(name for name in awaited if (PACKAGE / name / "__init__.py").exists())
    assert not there, f"{there} exist: take away their parentheses and `.**` in [tool.importlinter]"
