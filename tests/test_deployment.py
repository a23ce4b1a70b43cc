"""The files in deploy/ fit the hub: commands, variables, routes, times and locked versions are those that there are."""

import configparser
import os
import re
import shlex
import shutil
import subprocess
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.cli.contents import CONTENTS, load_command
from penstock.server.routes import ROUTES
from tests.cli.command import PENSTOCK, Command, clean_environment

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
UNITS = sorted([*(DEPLOY / "systemd").glob("*.service"), *(DEPLOY / "systemd").glob("*.timer")])
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ("arrow", "jwt", "postgres")
DRAIN_SECONDS = 10
"""How long a hub drains at most."""


def unit(name: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "systemd" / name, encoding="utf-8")
    return parser


def containers() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the pod and the container of each manifest that has one."""
    for path in MANIFESTS:
        for each in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if each["kind"] in ("Deployment", "Job"):
                pod = each["spec"]["template"]["spec"]
                [container] = pod["containers"]
                yield pod, container


def variables(command: str) -> set[str]:
    """Return the environment variables of a command's options."""
    return {option.envvar for option in load_command(command).params if getattr(option, "envvar", None)}


def locked(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", path.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_knows_everything_that_a_unit_says(path: Path, tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("NOT TESTED: whether systemd takes the units: there is no systemd-analyze")
    for each in UNITS:
        text = each.read_text(encoding="utf-8").replace("/opt/penstock/bin/penstock", "/bin/true")
        (tmp_path / each.name).write_text(text, encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / path.name)]

    done = subprocess.run(command, check=False, capture_output=True, encoding="utf-8")

    assert (done.returncode, done.stderr) == (0, "")


def test_service_has_time_to_drain_and_starts_again() -> None:
    service = unit("penstock.service")["Service"]

    assert int(service["TimeoutStopSec"]) > DRAIN_SECONDS
    assert service["Restart"] == "always"
    assert unit("penstock.service")["Unit"]["StartLimitIntervalSec"] == "0"
    assert service["ExecStart"] == "/opt/penstock/bin/penstock serve"


def test_variables_of_all_files_are_options_of_the_hub() -> None:
    env = (DEPLOY / "systemd" / "penstock.env").read_text(encoding="utf-8")
    named = set(re.findall(r"^#?([A-Z_]+)=", env, re.MULTILINE))
    for name in ("Containerfile", "README.md"):
        named |= set(re.findall(r"\b(PENSTOCK_\w+)=", (DEPLOY / name).read_text(encoding="utf-8")))
    for path in MANIFESTS:
        named |= set(re.findall(r"^\s+(?:- name: )?(PENSTOCK_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))

    assert "PENSTOCK_DATABASE" in named
    assert named <= variables("serve")


def test_backup_service_makes_backups_and_removes_old_ones(tmp_path: Path) -> None:
    database, backups = tmp_path / "penstock.db", tmp_path / "backups"
    backups.mkdir()
    assert Command(tmp_path, clean_environment())("migrate", "--database", f"sqlite:///{database}").status == 0
    for name, days in (("old.db", 15), ("killed.db.1234.partial", 15), ("mine.txt", 15), ("recent.db", 13)):
        (backups / name).write_bytes(b"")
        at = time.time() - days * 86_400
        os.utime(backups / name, (at, at))
    service = unit("penstock-backup.service")["Service"]

    for line in (service["ExecStart"], service["ExecStartPost"]):
        plain = line.replace("$$", "$").replace("%%", "%").replace("/var/backups/penstock", str(backups))
        words = shlex.split(plain.replace("/opt/penstock/bin/penstock", shlex.join(PENSTOCK)))
        environment = clean_environment() | {"PENSTOCK_DATABASE": f"sqlite:///{database}"}
        subprocess.run(words, check=True, env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL)

    left = {path.name for path in backups.iterdir()}
    [made] = left - {"mine.txt", "recent.db"}
    assert {"mine.txt", "recent.db"} < left
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d{6}Z\.db", made)


def test_image_has_the_locked_versions_of_all_requirements() -> None:
    image, whole = locked(DEPLOY / "requirements.lock"), locked(ROOT / "requirements.lock")
    wanted = [*PROJECT["dependencies"], *(each for name in EXTRAS for each in PROJECT["optional-dependencies"][name])]
    names = {re.split(r"[\[>=<;, ]", each)[0] for each in wanted}

    assert image.items() <= whole.items(), "make lock brings it up to date"
    assert names <= image.keys()


def test_image_runs_a_command_of_penstock_from_files_that_are_in_its_context() -> None:
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    copied = re.findall(r"^COPY (?!--from)(\S+)", text, re.MULTILINE)
    allowed = (DEPLOY / "Containerfile.dockerignore").read_text(encoding="utf-8")

    assert copied == ["deploy/requirements.lock", "dist/penstock_hub-*.whl"]
    assert all(line in allowed for line in ("!deploy/requirements.lock", "!dist/*.whl"))
    assert 'ENTRYPOINT ["penstock"]' in text
    [command] = re.findall(r'^CMD \["(\w+)"\]', text, re.MULTILINE)
    assert command in CONTENTS


def test_pods_run_commands_of_this_version_without_links_to_services() -> None:
    for pod, container in containers():
        assert container["args"][0] in CONTENTS
        assert container["image"].endswith(f"/penstock-hub:{PROJECT['version']}")
        assert pod["enableServiceLinks"] is False, "a service named penstock would set PENSTOCK_PORT"
        assert pod["securityContext"]["runAsUser"] == 10_001
        assert "useradd --uid 10001" in (DEPLOY / "Containerfile").read_text(encoding="utf-8")


def test_pods_are_probed_at_routes_of_the_hub_and_have_time_to_drain() -> None:
    [(pod, container)] = [each for each in containers() if each[1]["args"] == ["serve"]]
    probes = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
    [port] = container["ports"]
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][-1])

    assert probes == {"startup": "/health/live", "readiness": "/health/ready", "liveness": "/health/live"}
    assert {container[f"{name}Probe"]["httpGet"]["scheme"] for name in probes} == {"HTTPS"}
    assert set(probes.values()) <= {operation.path for operation in ROUTES}
    assert port["containerPort"] == 8080
    assert pod["terminationGracePeriodSeconds"] >= pause + DRAIN_SECONDS + 2


def test_selectors_of_the_manifests_match_the_pods_of_the_hub_alone() -> None:
    kinds: dict[str, Any] = {}
    for path in MANIFESTS:
        kinds |= {each["kind"]: each for each in yaml.safe_load_all(path.read_text(encoding="utf-8"))}
    labels = kinds["Deployment"]["spec"]["template"]["metadata"]["labels"]

    assert kinds["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert kinds["Service"]["spec"]["selector"] == labels
    assert kinds["Job"]["spec"]["template"]["metadata"]["labels"] != labels


def test_pods_of_the_hub_have_the_certificate_where_its_variables_say() -> None:
    [(pod, container)] = [each for each in containers() if each[1]["args"] == ["serve"]]
    documents = yaml.safe_load_all((DEPLOY / "kubernetes" / "penstock.yaml").read_text(encoding="utf-8"))
    [variables] = [each["data"] for each in documents if each["kind"] == "ConfigMap"]
    [place] = [each["mountPath"] for each in container["volumeMounts"] if each["name"] == "tls"]
    [secret] = [each["secret"] for each in pod["volumes"] if each["name"] == "tls"]

    assert variables["PENSTOCK_AUTH"] == "token"
    assert variables["PENSTOCK_TLS_CERT"] == f"{place}/tls.crt"
    assert variables["PENSTOCK_TLS_KEY"] == f"{place}/tls.key"
    assert secret["defaultMode"] == 0o440
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]


def test_readme_creates_every_secret_that_the_manifests_name() -> None:
    readme = (DEPLOY / "README.md").read_text(encoding="utf-8")
    text = "".join(path.read_text(encoding="utf-8") for path in MANIFESTS)
    named = set(re.findall(r"(?:secretKeyRef: {name|secretName): ([\w-]+)", text))

    assert named == {"penstock-database", "penstock-tls"}
    assert named == set(re.findall(r"kubectl create secret \w+ ([\w-]+)", readme))


def test_readme_makes_the_first_token_for_each_way_to_run_a_hub(tmp_path: Path) -> None:
    readme = (DEPLOY / "README.md").read_text(encoding="utf-8").replace("\\\n", "")
    made = re.findall(r"penstock (token create [^|]*?)(?: --database \S+)? \| install --mode=600 /dev/stdin ", readme)
    penstock = Command(tmp_path, clean_environment())
    penstock("migrate")

    assert len(made) == 3
    for each in made:
        assert re.fullmatch(r"pst_[\w-]{43}\n", penstock(*shlex.split(each)).out)
    assert penstock("access", "list", "-o", "json").json["admins"] == ["user:ops"]


def test_environment_of_the_service_asks_for_tokens_over_tls_once_its_comments_are_removed(tmp_path: Path) -> None:
    file = tmp_path / "penstock.env"
    shutil.copy(DEPLOY / "systemd" / "penstock.env", file)
    [change] = re.findall(r"sudo sed --in-place '(.*)' /etc", (DEPLOY / "README.md").read_text(encoding="utf-8"))

    subprocess.run(["sed", "--in-place", change, str(file)], check=True)

    variables = dict(re.findall(r"^([A-Z_]+)=(.*)$", file.read_text(encoding="utf-8"), re.MULTILINE))
    assert (variables["PENSTOCK_HOST"], variables["PENSTOCK_AUTH"]) == ("0.0.0.0", "token")
    assert variables.keys() >= {"PENSTOCK_TLS_CERT", "PENSTOCK_TLS_KEY"}
