"""What is installed: the wheel holds all of src but the demo, and nothing else, and works without the checkout."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import sysconfig
import time
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import pytest

from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.testing.factories import an_event_type
from penstock.testing.port import free_port
from tests.docs.examples import ROOT, quick_start, run, steady

BARE = "penstock"
"""The name of an unrelated project on PyPI: an instruction that names it installs a stranger's code."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = "|".join(PROJECT["optional-dependencies"])
INSTALLS_A_STRANGER = re.compile(
    rf"""
      (?<![\w/.-]) {BARE} \s* \[ \s* (?:{EXTRAS})                         # A requirement with extras,
    | (?<![\w/.-]) {BARE} \s* (?: @\s*(?:git\+|https?:|file:) | [<>=~!]=\s*[\d$] )  # or with a source or a version.
    | \b (?:install|add) (?:\s+-[-\w]+)* \s+ ['"]? {BARE} (?!\.?\w | [/-])  # The argument of pip, pipx, uv or poetry.
    | \b pip3? \s+ install \b [^\n`;&|]* [\s'"] {BARE} (?!\.?\w | [/-])       # Any of several arguments of pip.
    | \b (?:version|distribution|metadata|requires) \( ['"] {BARE} ['"] \)   # A look-up of what is installed.
    """,
    re.VERBOSE,
)
TEXTS = ("src", "docs", "deploy", "examples", "tests", "bench", "scripts", ".ci")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution as `make dist` does it."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([ROOT / "scripts" / "build-dist", folder], check=True)
    assert [path.suffix for path in folder.glob("penstock_hub-*.tar.gz")] == [".gz"]
    [wheel] = folder.glob("penstock_hub-*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel; its requirements are those of the locked environment."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    programs = folder / "bin"
    uv = [Path(sys.executable).with_name("uv"), "pip", "install", "--quiet", "--offline", "--no-deps"]
    subprocess.run([*uv, "--python", programs / "python", wheel], check=True)
    [site] = folder.glob("lib/python*/site-packages")
    (site / "requirements.pth").write_text(f"{sysconfig.get_path('purelib')}\n")  # Behind its own packages.
    return programs


def test_wheel_holds_every_file_of_src_but_the_demo(wheel: Path) -> None:
    source = ROOT / "src"
    awaited = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    awaited = {name for name in awaited if "__pycache__" not in name and not name.startswith("penstock_demo/")}
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    assert held == awaited
    assert {Path(name).suffix for name in held} == {
        *(".json", ".py", ".sql", ".yml", ".template", ".typed"),
        *(".css", ".html", ".js", ".svg", ".txt"),  # Pages for browsers, with the licences of its libraries.
    }


def test_installed_wheel_runs_the_quick_start(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve, create, *shown = quick_start()
    port, python = free_port(), str(installed / "python")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("PATH", f"{installed}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PENSTOCK_PORT", str(port))
    monkeypatch.setenv("PENSTOCK_URL", f"http://localhost:{port}")
    place = subprocess.run(
        [python, "-c", "import penstock; print(penstock.__file__)"], check=True, capture_output=True, text=True
    )
    hub = subprocess.Popen(["bash", "-c", f"exec {serve.text}"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        await_answer(hub, port)
        run(create, port=port, directory=tmp_path, python=python)
        commit, tail, events, follow, groups = shown
        run(commit, port=port, directory=tmp_path, python=python)
        printed = [run(block, port=port, directory=tmp_path, python=python) for block in (tail, follow)]
    finally:
        hub.terminate()
        status = hub.wait(timeout=300)

    assert Path(place.stdout).is_relative_to(installed.parent), "the wheel's own package is imported"
    assert [*map(as_shown, printed)] == [as_shown(block.text) for block in (events, groups)]
    assert status == 0


def test_demo_of_an_installed_wheel_asks_for_a_checkout(installed: Path, tmp_path: Path) -> None:
    said = subprocess.run([installed / "penstock", "demo"], check=False, cwd=tmp_path, capture_output=True, text=True)

    assert (said.returncode, said.stdout) == (1, "")
    assert "the demo is not part of the installed distribution" in said.stderr
    assert "make demo" in said.stderr
    assert not list(tmp_path.iterdir())


OUTBOX_ALONE = """
import sqlite3, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in ("penstock", "msgspec", "jsonschema_rs", "re2", "_re2"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Absent())
from penstock import outbox

connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
outbox.publish(connection, "order.placed", {"order_id": 7})
connection.execute("COMMIT")
"""
"""Publishes where nothing can be imported but what README.md names for such a service."""


def test_outbox_needs_three_of_the_requirements(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"order_id": {"type": "integer"}}, "required": ["order_id"]}
    with closing(open_store(f"sqlite:///{tmp_path}/hub.db")) as store:
        store.migrate()
        Hub(store).registry.create(an_event_type(schema={"type": "json_schema", "schema": json.dumps(schema)}))

    subprocess.run([sys.executable, "-c", OUTBOX_ALONE, tmp_path / "hub.db"], check=True)

    with closing(sqlite3.connect(tmp_path / "hub.db")) as connection:
        assert connection.execute("SELECT count(*) FROM penstock_outbox").fetchall() == [(1,)]


def test_version_of_the_distribution_is_that_of_the_package() -> None:
    import penstock

    assert PROJECT["version"] == penstock.__version__


def test_no_instruction_installs_the_unrelated_project() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if BARE in line and INSTALLS_A_STRANGER.search(line)
    ]

    assert not wrong, "the distribution is called penstock-hub:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    "instruction",
    [
        *(f"pip install '{BARE}[{extra}]'" for extra in PROJECT["optional-dependencies"]),
        f"pip install {BARE}",
        f"python -m pip install --upgrade --index-url https://host.example psycopg {BARE}",
        f'uv add --dev "{BARE}"',
        f'dependencies = ["{BARE}>=0.1"]',
        f'connect = ["{BARE}[spark]"]',
        f"{BARE} @ git+https://host.example/it.git",
        f"importlib.metadata.version('{BARE}')",
    ],
)
def test_instruction_with_the_bare_name_is_found(instruction: str) -> None:
    right = instruction.replace(BARE, f"{BARE}-hub").replace("'", '"')

    assert INSTALLS_A_STRANGER.search(instruction)
    assert not INSTALLS_A_STRANGER.search(right)
    assert not INSTALLS_A_STRANGER.search(f"pip install '/path/to/{BARE}[spark]'")


def texts() -> Iterator[Path]:
    """Yield the files of the repository that may say how to install it."""
    yield from (path for path in ROOT.iterdir() if path.is_file())
    for folder in TEXTS:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def as_shown(output: str) -> list[str]:
    """Return the lines of *output* without times, ages and the widths of tables."""
    lines = re.sub(r"\b\d+(\.\d+)? s\b", "<age>", re.sub("─+", "─", steady(output))).splitlines()
    return [" ".join(line.split()) for line in lines if line.strip()]


def await_answer(hub: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + 300
    while True:
        try:
            with urlopen(f"http://localhost:{port}/health/ready", timeout=1):
                return
        except OSError:
            assert hub.poll() is None, "the hub has ended"
            assert time.monotonic() < deadline, "the hub does not answer"
            time.sleep(0.02)
