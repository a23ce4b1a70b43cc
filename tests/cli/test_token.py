"""`penstock token`: tokens are made, listed, rotated and revoked, and a hub takes those that are valid."""

import errno
import json
import os
import pwd
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock.errors import DatabaseUnavailable
from penstock.hub.admin.settings import Settings
from penstock.storage import open_store
from tests.cli.command import PENSTOCK, Command
from tests.served import until
from tests.unit.hub.feeds import read_data


def create(penstock: Command, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(penstock("token", "create", *arguments, "--output", "json").out)
    return found


def test_token_is_printed_once_and_listed_without_its_secret(penstock: Command) -> None:
    penstock("migrate")
    created = penstock("token", "create", "billing", "--expires-in", "90d")

    assert re.fullmatch(r"pst_[\w-]{43}\n", created.out)
    assert "not shown again" in created.err
    assert "expires at 20" in created.err
    listed = penstock("token", "list")
    assert "service:billing" in listed.out
    assert created.out.strip() not in listed.out
    [token] = json.loads(penstock("token", "list", "--output", "json").out)["items"]
    assert (token["caller"], token["used_at"]) == ("service:billing", None)
    assert token["expires_at"] > token["created_at"]


def test_database_without_tokens_says_how_to_make_one(penstock: Command) -> None:
    penstock("migrate")

    assert "penstock token create" in penstock("token", "list").out


@pytest.mark.parametrize("name", ["*", "unauthenticated", " billing", "two\nlines"])
def test_name_that_means_everybody_or_is_no_name_is_refused(penstock: Command, name: str) -> None:
    penstock("migrate")

    assert penstock("token", "create", name).status == 2


@pytest.mark.parametrize(("name", "advice"), [("usr:jane", "jane --kind user"), ("service:billing", "billing, not")])
def test_name_with_a_type_before_it_is_refused(penstock: Command, name: str, advice: str) -> None:
    penstock("migrate")
    refused = penstock("token", "create", "--admin", name)

    assert refused.status == 2
    assert advice in " ".join(refused.err.split())
    assert "All lists are empty" in penstock("access", "list").out


def test_name_may_be_a_uri_or_a_service_account(penstock: Command) -> None:
    penstock("migrate")

    for name in ("spiffe://shop/billing", "system:serviceaccount:shop:billing"):
        assert create(penstock, name)["caller"] == f"service:{name}"


def test_duration_without_a_unit_is_refused(penstock: Command) -> None:
    penstock("migrate")
    refused = penstock("token", "create", "billing", "--expires-in", "90")

    assert refused.status == 2
    assert "'90' has no unit: write 90d or 90s" in " ".join(refused.err.split())


def test_token_is_written_into_a_file_for_its_owner_alone(penstock: Command) -> None:
    penstock("migrate")
    created = penstock("token", "create", "billing", "--to", "billing.token")
    file = penstock.directory / "billing.token"

    assert created.out.endswith("service:billing is in billing.token; it never expires\n")
    assert "pst_" not in created.out + created.err
    assert re.fullmatch(r"pst_[\w-]{43}\n", file.read_text(encoding="ascii"))
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_rotation_into_something_else_than_a_file_is_refused_and_keeps_the_token(
    penstock: Command, tmp_path: Path, make: Callable[[Path], object]
) -> None:
    penstock("migrate")
    created = create(penstock, "billing")
    place = tmp_path / "place"
    make(place)

    refused = penstock("token", "rotate", created["id"], "--to", str(place))

    assert (refused.status, "is not a file" in refused.err) == (1, True)
    assert not place.is_file()
    [kept] = json.loads(penstock("token", "list", "--output", "json").out)["items"]
    assert (kept["id"], kept["expires_at"]) == (created["id"], None)


def test_token_replaces_no_file_unless_it_is_rotated(penstock: Command) -> None:
    penstock("migrate")
    file = penstock.directory / "billing.token"
    created = json.loads(penstock("token", "create", "billing", "--to", file, "--output", "json").out)
    first = file.read_text(encoding="ascii")
    file.chmod(0o640)

    refused = penstock("token", "create", "billing", "--to", file)
    assert (refused.status, file.read_text(encoding="ascii")) == (1, first)
    assert f"there is a file {file} already" in refused.err
    assert penstock("token", "rotate", created["id"], "--overlap", "1h", "--to", file).status == 0
    assert file.read_text(encoding="ascii") != first
    assert file.stat().st_mode & 0o777 == 0o640
    assert penstock("token", "rotate", "nosuch", "--to", file).status == 1
    assert len(json.loads(penstock("token", "list", "--output", "json").out)["items"]) == 2
    assert {each.name for each in penstock.directory.iterdir() if "token" in each.name} == {"billing.token"}


def test_token_for_a_folder_that_is_not_there_is_not_created(penstock: Command) -> None:
    penstock("migrate")

    assert "nosuch/a.token cannot be written" in penstock("token", "create", "billing", "--to", "nosuch/a.token").err
    assert "There are no tokens" in penstock("token", "list").out


def test_revocation_says_that_the_caller_stays_an_administrator(penstock: Command) -> None:
    penstock("migrate")
    first, second = create(penstock, "ops", "--admin"), create(penstock, "ops")

    with_another = penstock("token", "revoke", first["id"])
    last = penstock("token", "revoke", second["id"])

    assert "admins" not in with_another.err
    assert "is still one of the hub's admins" in last.err
    assert "penstock access remove admins service:ops" in last.err


def test_rights_to_everything_are_given_and_taken_one_by_one(penstock: Command) -> None:
    penstock("migrate")
    added = penstock("access", "add", "readers", "service:prometheus")
    again = penstock("access", "add", "readers", "service:prometheus")

    assert "now one of the hub's readers" in added.out
    assert "The list admins is empty" in added.err
    assert "already one of" in again.out
    lists = penstock("access", "list", "--output", "json").json
    assert lists == {"admins": [], "readers": ["service:prometheus"], "writers": []}
    assert "service:prometheus" in penstock("access", "list").out
    assert penstock("access", "remove", "writers", "service:prometheus").status == 1
    assert "no longer" in penstock("access", "remove", "readers", "service:prometheus").out
    for wrong in ("usr:jane", "prometheus", "service: prometheus", "*:jane"):
        assert penstock("access", "add", "admins", wrong).status == 2, wrong
    assert penstock("access", "list", "--output", "json").json == {"admins": [], "readers": [], "writers": []}


def test_unknown_token_is_refused_by_name(penstock: Command) -> None:
    penstock("migrate")
    for command in ("revoke", "rotate"):
        refused = penstock("token", command, "nosuch")

        assert refused.status == 1
        assert "there is no token 'nosuch'" in refused.err


def test_hub_takes_tokens_that_are_valid_and_refuses_all_others_alike(
    penstock: Command, database_url: str, tmp_path: Path
) -> None:
    penstock("migrate", "--database", database_url)
    at = ("--database", database_url)
    admin, billing = create(penstock, "ops", "--admin", *at), create(penstock, "billing", *at)
    options = ("--port", 0, *at, "--auth", "token", "--log-format", "json")
    with penstock.start("serve", *options) as serving:
        said: dict[str, Any] = {}
        while said.get("event") != "serving":
            said = json.loads(serving.stderr.readline())

        def ask(token: str | None, path: str = "/event-types") -> httpx2.Response:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            return httpx2.get(said["url"] + path, headers=headers)

        assert ask(billing["token"]).status_code == 200
        assert ask(billing["token"], "/settings/admins").status_code == 403
        assert ask(admin["token"], "/settings/admins").json()["admins"] == [{"data_type": "service", "value": "ops"}]
        penstock("token", "revoke", billing["id"], *at)
        until(lambda: ask(billing["token"]).status_code == 401)
        refused = [ask(each) for each in (None, billing["token"], "pst_" + "x" * 43, "nonsense")]

        assert {each.status_code for each in refused} == {401}
        assert {each.headers["www-authenticate"] for each in refused} == {'Bearer realm="penstock"'}
        assert len({each.text for each in refused}) == 1
        reasons: dict[str, str | None] = {}
        while len(reasons) < 4:
            line = serving.stderr.readline()
            assert b"pst_" not in line
            if "reason" in (said_of := json.loads(line)):
                reasons[said_of["reason"]] = said_of.get("token")
        assert reasons == {
            "no credential": None,
            "token revoked": billing["id"],
            "token unknown": None,
            "credential of another kind": None,
        }
        named = ("event-type", "list", "--url", said["url"])
        assert "--token-file" in penstock(*named).err
        assert penstock(*named, PENSTOCK_TOKEN=admin["token"]).status == 0
        (tmp_path / "ops.token").write_text(admin["token"] + "\n")
        assert penstock(*named, "--token-file", tmp_path / "ops.token").status == 0
        assert penstock(*named, PENSTOCK_TOKEN_FILE=str(tmp_path / "ops.token")).status == 0
        missing = penstock(*named, "--token-file", tmp_path / "nosuch")
        assert missing.status == 2
        assert "cannot be read" in missing.err
        scraper = create(penstock, "prometheus", *at)["token"]
        assert ask(scraper, "/metrics").status_code == 403
        penstock("access", "add", "readers", "service:prometheus", *at)
        until(lambda: ask(scraper, "/metrics").status_code == 200)
        rotated = json.loads(penstock("token", "rotate", admin["id"], *at, "--output", "json").out)
        until(lambda: ask(rotated["token"]).status_code == 200)
        assert ask(admin["token"]).status_code == 200


def test_audit_log_names_the_user_of_the_command_line(penstock: Command, database_url: str) -> None:
    at = ("--database", database_url)
    penstock("migrate", *at)
    with closing(open_store(database_url)) as store:
        Settings(store, lambda: None).switch("audit_log_collection", on=True)
        created = create(penstock, "billing", "--admin", *at)
        penstock("token", "revoke", created["id"], *at, LOGNAME="mallory", USER="mallory")
        penstock("restored", "--yes", *at)

        with store.read() as tx:
            [partition] = tx.registry.get("nakadi.audit.log").partition_ids
        events = [json.loads(line) for line in read_data(store, partition)][1:]
    assert [(each["resource_type"], each["action"]) for each in events] == [
        ("token", "created"), ("admins", "updated"), ("token", "deleted"), ("database", "updated")
    ]  # fmt: skip
    assert {(each["user"], each["user_type"], each["address"]) for each in events} == {
        (pwd.getpwuid(os.getuid()).pw_name, "user", "")
    }
    assert created["token"] not in json.dumps(events)


def left_tokens(penstock: Command) -> list[tuple[str, str | None]]:
    return [(each["id"], each["expires_at"]) for each in penstock("token", "list", "-o", "json").json["items"]]


@pytest.fixture(params=["closed pipe", "full disk"])
def unwritable(request: pytest.FixtureRequest) -> Iterator[int]:
    """A descriptor to which nothing can be written."""
    if request.param == "full disk":
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        nobody, descriptor = os.pipe()
        os.close(nobody)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("output", ["text", "json"])
def test_token_that_cannot_be_printed_is_revoked_again(penstock: Command, unwritable: int, output: str) -> None:
    penstock("migrate")
    [old] = [create(penstock, "billing")]

    for command in (("create", "ops", "--admin"), ("rotate", old["id"], "--overlap", "0s")):
        words = [*PENSTOCK, "token", *command, "--output", output]
        at, environment = penstock.directory, penstock.environment
        failed = subprocess.run(
            words, check=False, stdout=unwritable, stderr=subprocess.PIPE, cwd=at, env=environment, encoding="utf-8"
        )
        assert failed.returncode == 1
        assert "; the new token was revoked again\n" in failed.stderr
        assert "--to" in failed.stderr.splitlines()[-1]
        assert left_tokens(penstock) == [(old["id"], None)]
    assert penstock("access", "list", "-o", "json").json["admins"] == []


def test_token_that_cannot_be_written_is_revoked_again(penstock: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    penstock("migrate")
    file = penstock.directory / "billing.token"
    old = penstock("token", "create", "billing", "--to", file, "-o", "json").json
    before = file.read_text(encoding="ascii")

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("penstock.cli.token.os.fsync", fail)
    created = penstock("token", "create", "ops", "--admin", "--to", "ops.token")
    rotated = penstock("token", "rotate", old["id"], "--overlap", "0s", "--to", file)

    for failed in (created, rotated):
        assert (failed.status, failed.out) == (1, "")
        assert "token cannot be written: No space left on device" in failed.err
    assert left_tokens(penstock) == [(old["id"], None)]
    assert penstock("access", "list", "-o", "json").json["admins"] == []
    assert file.read_text(encoding="ascii") == before
    assert [each.name for each in penstock.directory.iterdir() if "token" in each.name] == [file.name]


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ("revoke", "nobody has the secret of token {new}, and it could not be revoked: "),
        ("expire_token", "token {new} takes the place of {old}, which stays valid: "),
    ],
)
def test_token_that_is_left_in_the_database_is_named(
    penstock: Command, monkeypatch: pytest.MonkeyPatch, step: str, says: str
) -> None:
    penstock("migrate")
    old = create(penstock, "billing")["id"]

    def fail(*_: object) -> None:
        raise DatabaseUnavailable(reason="it is away")

    if step == "revoke":
        monkeypatch.setattr("penstock.cli.token._show_new", fail)
        monkeypatch.setattr("penstock.hub.admin.tokens.Tokens.revoke", fail)
    else:
        monkeypatch.setattr("penstock.storage.admin.AccessRepository.expire_token", fail)
    failed = penstock("token", "rotate", old)

    [(first, _), (new, _)] = left_tokens(penstock)
    assert (failed.status, first) == (1, old)
    assert says.format(new=new, old=old) in failed.err
    assert f"Run `penstock token revoke {new if step == 'revoke' else old}`" in failed.err
