from pathlib import Path

import pytest

from penstock.errors import BadParameter, RequirementMissing
from penstock.spark.laptop import check_java, server_of, settings


def java_in(folder: Path) -> Path:
    program = folder / "java"
    folder.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def test_java_is_found_on_the_path(tmp_path: Path) -> None:
    java_in(tmp_path / "bin")

    check_java({"PATH": str(tmp_path / "bin")})


def test_java_is_found_where_java_home_points(tmp_path: Path) -> None:
    java_in(tmp_path / "bin")

    check_java({"PATH": "", "JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize("environment", [{"PATH": "/nowhere"}, {"JAVA_HOME": "/nowhere", "PATH": "/usr/bin"}])
def test_missing_java_is_reported_with_the_package_to_install(environment: dict[str, str]) -> None:
    with pytest.raises(RequirementMissing, match=r"Java is needed, none .* found; install Java 17 .*openjdk-17"):
        check_java(environment)


def test_a_session_listens_on_loopback_alone_and_reckons_in_utc() -> None:
    chosen = settings(8)

    assert chosen["spark.driver.bindAddress"] == chosen["spark.driver.host"] == "127.0.0.1"
    assert (chosen["spark.ui.enabled"], chosen["spark.sql.session.timeZone"]) == ("false", "UTC")


@pytest.mark.parametrize(
    ("master", "remote", "server"),
    [
        (None, None, None),
        (None, "sc://a.example", "sc://a.example"),
        ("sc://b.example", "sc://a.example", "sc://b.example"),
        ("local[2]", None, None),
    ],
)
def test_spark_is_started_unless_a_server_is_named(master: str | None, remote: str | None, server: str | None) -> None:
    environment = {} if remote is None else {"SPARK_REMOTE": remote}

    assert server_of(master, environment) == server


def test_spark_is_not_started_where_the_environment_names_a_server() -> None:
    with pytest.raises(BadParameter, match=r"master is 'local\[2\]'; allowed: .* SPARK_REMOTE is set: it is sc://a"):
        server_of("local[2]", {"SPARK_REMOTE": "sc://a.example"})


def test_a_token_in_the_address_of_a_server_is_not_shown() -> None:
    with pytest.raises(BadParameter) as refused:
        server_of("local[2]", {"SPARK_REMOTE": "sc://a.example:443/;token=secret"})

    assert "sc://a.example:443" in str(refused.value)
    assert "secret" not in str(refused.value)
