"""`penstock serve` with JSON Web Tokens, client certificates, a proxy that authenticates, and TLS."""

import json
import re
import shutil
import signal
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
import typer

from penstock.cli import serve
from penstock.cli.authentication import AuthenticationOptions, JwtOptions, ProxyOptions, TlsOptions
from penstock.client import Client
from tests.cli.command import Command, announced
from tests.server.authentication.authority import DAY, Authority
from tests.server.authentication.issuer import AUDIENCE, ISSUER, jwk, key_set, rsa_key, sign

JWT = ("--auth", "jwt", "--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE)
FILE = Path("file.pem")
PROXY = ("--auth", "proxy", "--proxy-header", "X-Forwarded-User")


def list_event_types(url: str, verify: Any = True, **headers: str) -> int:
    """Return the status of a request that every caller may make."""
    with httpx2.Client(verify=verify, trust_env=False) as client:
        return client.get(f"{url}/event-types", headers=headers).status_code


def test_hub_accepts_json_web_tokens_of_its_issuer(penstock: Command, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_bytes(key_set(jwk(rsa_key(), kid="first")))
    with penstock.start("serve", "--port", 0, "--host", "0.0.0.0", *JWT, "--jwt-keys", "keys.json") as serving:
        url = announced(serving).replace("0.0.0.0", "127.0.0.1")

        statuses = [
            list_event_types(url, authorization=f"Bearer {token.decode()}")
            for token in (sign(), sign(), sign(rsa_key(1)), sign(aud="other"))
        ]
        without = httpx2.get(f"{url}/event-types", trust_env=False)

    assert statuses == [200, 200, 401, 401]
    assert without.status_code == 401
    assert without.headers["www-authenticate"].startswith("Bearer")


def test_hub_starts_while_the_issuer_is_away_and_asks_clients_to_repeat(penstock: Command) -> None:
    with penstock.start("serve", "--port", 0, *JWT, "--jwt-keys", "http://127.0.0.1:1/keys") as serving:
        url = announced(serving)
        with httpx2.Client(trust_env=False) as client:
            answer = client.get(f"{url}/event-types", headers={"authorization": f"Bearer {sign().decode()}"})

    assert answer.status_code == 503, answer.text
    assert "keys-unavailable" in answer.text, answer.text
    assert answer.headers["retry-after"] == "2"


def test_hub_serves_https_to_clients_with_certificates(penstock: Command, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.sign_for_server()
    client_certificate = authority.sign("client", cn=["billing"])
    tls = ("--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", authority.certificate)
    with penstock.start("serve", "--port", 0, *tls, "--auth", "certificate", "--admin", "service:billing") as serving:
        url = announced(serving)
        trusting = ssl.create_default_context(cafile=str(authority.certificate))
        assert list_event_types(url, trusting) == 401

        trusting.load_cert_chain(*client_certificate)
        assert list_event_types(url, trusting) == 200
        with httpx2.Client(verify=trusting, trust_env=False) as http, Client(url, http=http) as client:
            client.create_event_type("order.placed")
            client.publish("order.placed", [{"id": 1}])
            assert [each.head for each in client.partitions("order.placed")] == [1]

        renewed = authority.sign_for_server("renewed", ends=90 * DAY)
        for source, target in zip(renewed, (certificate, key), strict=True):
            shutil.copy(source, target)
        for line in serving.stderr or ():
            if json.loads(line)["event"] == "certificate loaded":
                break
        assert list_event_types(url, trusting) == 200
        with httpx2.Client(verify=trusting, trust_env=False) as client:
            metrics = client.get(f"{url}/metrics").text

    assert url.startswith("https://")
    (seconds_left,) = re.findall(r"^penstock_certificate_expires_seconds (\S+)$", metrics, re.MULTILINE)
    assert 89 * 86_400 < float(seconds_left) <= 90 * 86_400


def test_hub_with_an_expired_certificate_says_so_when_it_starts(penstock: Command, tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).sign_for_server(begins=-2 * DAY, ends=-DAY)
    with penstock.start("serve", "--port", 0, "--tls-cert", certificate, "--tls-key", key) as serving:
        url = announced(serving)
        warning = json.loads(serving.stderr.readline()) if serving.stderr else {}
        asked = penstock("event-type", "list", "--url", url.replace("https://", "http://"))

    assert (warning["level"], warning["event"]) == ("warning", "clients will refuse the certificate")
    assert f"{certificate} has expired" in warning["reason"]
    assert "its address begins with https://" in asked.err


def test_hub_with_idle_tls_connections_stops_at_once(penstock: Command, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.sign_for_server()
    with penstock.start("serve", "--port", 0, "--tls-cert", certificate, "--tls-key", key) as serving:
        url = httpx2.URL(announced(serving))
        context = ssl.create_default_context(cafile=str(authority.certificate))
        with (
            socket.create_connection((url.host, url.port)) as silent,
            context.wrap_socket(socket.create_connection((url.host, url.port)), server_hostname="localhost") as idle,
        ):
            idle.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert idle.recv(65536).startswith(b"HTTP/1.1 200 ")
            serving.send_signal(signal.SIGTERM)

            said = serving.stderr.read().decode() if serving.stderr else ""
            assert serving.wait(300) == 0
            assert silent.fileno() > 0

    assert "stopped" in said
    assert "giving up" not in said


def test_slow_reader_over_tls_gets_its_whole_answer_from_a_hub_that_stops(penstock: Command, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.sign_for_server()
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with penstock.start("serve", "--port", 0, "--tls-cert", certificate, "--tls-key", key) as serving:
        url = httpx2.URL(announced(serving))
        with httpx2.Client(verify=context, trust_env=False) as http, Client(str(url), http=http) as client:
            client.create_event_type("order.placed")
            client.publish("order.placed", [{"id": number, "note": "x" * 1000} for number in range(6000)])
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect((url.host, url.port))
        with context.wrap_socket(raw, server_hostname="localhost") as slow:
            slow.sendall(
                b"GET /feeds/order.placed?n=1&cursor0=_first&pagesizehint=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            answer = slow.recv(1000)
            serving.send_signal(signal.SIGTERM)
            for line in serving.stderr or ():
                if json.loads(line)["event"] == "stopping":
                    break
            while piece := slow.recv(65536):
                answer += piece

    assert answer.endswith(b"\r\n0\r\n\r\n")
    assert answer.count(b'"id":') == 6000


def test_connection_without_a_tls_handshake_is_cut_in_time(penstock: Command, tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).sign_for_server()
    tls = ("--tls-cert", certificate, "--tls-key", key)
    with penstock.start("serve", "--port", 0, *tls, "--header-timeout", "200ms") as serving:
        url = httpx2.URL(announced(serving))

        with socket.create_connection((url.host, url.port), timeout=30) as silent, suppress(ConnectionResetError):
            assert silent.recv(1) == b""


@pytest.mark.parametrize(("trusted", "status"), [("127.0.0.1", 200), ("10.0.0.0/8", 401)])
def test_hub_believes_the_header_of_a_trusted_proxy_alone(penstock: Command, trusted: str, status: int) -> None:
    with penstock.start("serve", "--port", 0, *PROXY, "--trusted-proxy", trusted) as serving:
        url = announced(serving)

        assert list_event_types(url, **{"x-forwarded-user": "jane"}) == status
        assert list_event_types(url, **{"x-forwarded-user": "jane", "x-forwarded-for": "127.0.0.1"}) == status
        assert list_event_types(url) == 401


def test_page_that_leads_its_own_name_to_a_hub_behind_a_proxy_is_refused(penstock: Command) -> None:
    """It comes from the address of the proxy, by a browser on the same machine, and can set the proxy's header."""
    options = (*PROXY, "--trusted-proxy", "127.0.0.1", "--host-name", "hub.example")
    with penstock.start("serve", "--port", 0, *options) as serving:
        url, jane = announced(serving), {"x-forwarded-user": "jane"}

        assert list_event_types(url, host="evil.example:8080", **jane) == 421
        assert list_event_types(url, host="evil.example", **jane, **{"x-forwarded-host": "hub.example"}) == 421
        assert list_event_types(url, host="hub.example", **jane) == list_event_types(url, **jane) == 200


def test_page_that_leads_its_own_name_to_an_open_hub_behind_a_proxy_is_refused(penstock: Command) -> None:
    with penstock.start("serve", "--port", 0, "--trusted-proxy", "127.0.0.1") as serving:
        assert list_event_types(announced(serving), host="evil.example") == 421


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        (AuthenticationOptions(["jwt"]), "--auth jwt needs --jwt-issuer"),
        (AuthenticationOptions(["jwt"], JwtOptions(ISSUER)), "--auth jwt needs --jwt-audience"),
        (AuthenticationOptions(["token"], JwtOptions(keys="keys.json")), "--jwt-keys needs --auth jwt"),
        (AuthenticationOptions(["certificate"]), "--auth certificate needs --tls-client-ca"),
        (
            AuthenticationOptions(["proxy"], proxy=ProxyOptions(trusted=["10.0.0.1"])),
            "--auth proxy needs --proxy-header",
        ),
        (AuthenticationOptions(["proxy"], proxy=ProxyOptions("X-User")), "--auth proxy needs --trusted-proxy"),
        (AuthenticationOptions(proxy=ProxyOptions("X-User")), "--proxy-header needs --auth proxy"),
        (AuthenticationOptions(tls=TlsOptions(FILE)), "--tls-cert needs --tls-key"),
        (AuthenticationOptions(tls=TlsOptions(key=FILE)), "--tls-key needs --tls-cert"),
        (AuthenticationOptions(tls=TlsOptions(FILE, FILE, FILE)), "--tls-client-ca needs --auth certificate"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_option_without_another_that_it_needs_is_refused(options: AuthenticationOptions, missing: str) -> None:
    with pytest.raises(typer.BadParameter, match=missing):
        options.check()


def test_serve_tells_why_it_cannot_begin(penstock: Command, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text("{}")
    (tmp_path / "private.json").write_text('{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAA","d":"AAAA"}]}')
    certificate, key = Authority(tmp_path).sign_for_server()

    for arguments, status, said in (
        ((*JWT, "--jwt-keys", "keys.json"), 1, "--jwt-keys keys.json: it is not a JSON Web Key Set"),
        ((*JWT, "--jwt-keys", "private.json"), 1, "--jwt-keys private.json: it has private keys"),
        ((*JWT, "--jwt-keys", "away.json"), 1, "the file cannot be read: No such file"),
        ((*JWT, "--jwt-keys", "http://login.example/keys"), 2, "must be https://"),
        (("--tls-cert", certificate, "--tls-key", "away.key"), 1, "the key away.key cannot be read"),
        (("--tls-cert", key, "--tls-key", key), 1, "no certificate in PEM"),
        (
            ("--auth", "proxy", "--trusted-proxy", "127.0.0.1", "--proxy-header", "X User"),
            2,
            "'X User' is no name of a header",
        ),
        (
            ("--auth", "proxy", "--trusted-proxy", "127.0.0.1", "--proxy-header", "Authorization"),
            2,
            "Authorization has what clients send",
        ),
        (("--auth", "magic"), 2, "'magic' is not one of token, jwt, certificate, proxy"),
    ):
        result = penstock("serve", "--port", 0, *arguments)
        assert result.status == status, result.err
        assert said in " ".join(result.err.split())
        assert "Traceback" not in result.err


CLEAR = "tokens come in clear text: whoever sees the network can use them"
ANY_PROXY = "every address is a trusted proxy: anyone who can connect can "


@pytest.mark.parametrize(
    ("host", "options", "events"),
    [
        ("0.0.0.0", AuthenticationOptions(["token"]), [CLEAR]),
        ("::", AuthenticationOptions(["certificate", "jwt"]), [CLEAR]),
        ("127.0.0.1", AuthenticationOptions(["token"]), []),
        ("0.0.0.0", AuthenticationOptions(["token"], tls=TlsOptions(FILE, FILE)), []),
        ("0.0.0.0", AuthenticationOptions(["token"], proxy=ProxyOptions(trusted=["10.0.0.7"])), []),
        ("0.0.0.0", AuthenticationOptions(["proxy"], proxy=ProxyOptions("X-User", "user", ["10.0.0.0/8"])), []),
        (
            "0.0.0.0",
            AuthenticationOptions(["proxy"], proxy=ProxyOptions("X-User", "user", ["10.0.0.7", "0.0.0.0/0"])),
            [f"{ANY_PROXY}be any caller"],
        ),
        (
            "127.0.0.1",
            AuthenticationOptions(["token"], proxy=ProxyOptions(trusted=["::/0"])),
            [f"{ANY_PROXY}tell links and addresses of its own"],
        ),
    ],
)
def test_dangerous_options_are_warned_of(host: str, options: AuthenticationOptions, events: list[str]) -> None:
    assert [each.event for each in serve._find_warnings(host, options, None)] == events


def test_hub_that_takes_tokens_in_clear_text_warns_when_it_starts_and_so_do_its_clients(penstock: Command) -> None:
    with penstock.start("serve", "--port", 0, "--host", "0.0.0.0", "--auth", "token") as serving:
        url = announced(serving)
        warning = json.loads(serving.stderr.readline()) if serving.stderr else {}

    assert (warning["level"], warning["event"], warning["url"]) == ("warning", CLEAR, url)
    assert "--tls-cert" in warning["advice"]


def test_hub_that_asks_nobody_warns_of_tokens_in_its_database(penstock: Command) -> None:
    at = ("--database", "sqlite:///shop.db")
    penstock("migrate", *at)
    penstock("token", "create", "billing", "--to", "billing.token", *at)

    with penstock.start("serve", "--port", 0, *at) as serving:
        announced(serving)
        warning = json.loads(serving.stderr.readline()) if serving.stderr else {}

    assert warning["level"] == "warning"
    assert "no authentication, though the database has tokens" in warning["event"]
    assert "--auth token" in warning["advice"]


def test_command_warns_once_of_a_token_that_it_sends_in_clear_text(penstock: Command) -> None:
    """Nobody has that address (RFC 5737), and the proxy is not there."""
    for url, count in (("http://192.0.2.1:8080", 1), ("https://192.0.2.1:8080", 0), ("http://127.0.0.1:1", 0)):
        proxy = "http://127.0.0.1:1"
        asked = penstock("groups", "--url", url, PENSTOCK_TOKEN="pst_secret", HTTP_PROXY=proxy, HTTPS_PROXY=proxy)
        assert asked.status == 1
        assert asked.err.count(f"penstock: warning: a token is sent to {url} in clear text; begin the addr") == count
        assert asked.err.count("warning") == count


def test_failed_handshakes_are_logged_with_their_reason(penstock: Command, tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    certificate, key = authority.sign_for_server()
    tls = ("--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", authority.certificate)
    with penstock.start("serve", "--port", 0, *tls, "--auth", "certificate") as serving:
        url = announced(serving)

        def find_reason() -> str:
            for line in serving.stderr or ():
                said = json.loads(line)
                if said["event"] == "TLS handshake failed":
                    assert said["client"] == "127.0.0.1"
                    return str(said["reason"])
            raise AssertionError("it ended")

        def fail(url: str, verify: Any) -> str:
            with pytest.raises(httpx2.HTTPError):
                list_event_types(url, verify)
            return find_reason()

        trusting = ssl.create_default_context(cafile=str(authority.certificate))
        trusting.load_cert_chain(*other.sign("client", cn=["billing"]))

        assert fail(url.replace("https://", "http://"), True).startswith(
            "the client speaks plain HTTP: its address has"
        )
        assert fail(url, ssl.create_default_context()).startswith(
            "the client does not trust the certificate of the hub"
        )
        assert fail(url, trusting).startswith("the certificate of the client is refused (CERTIFICATE_VERIFY_FAILED): ")


def test_refused_scrape_of_metrics_has_a_line_with_its_reason(penstock: Command) -> None:
    with penstock.start("serve", "--port", 0, "--auth", "token") as serving:
        url = announced(serving)
        with httpx2.Client(trust_env=False) as client:
            assert client.get(f"{url}/health").status_code == 200
            assert client.get(f"{url}/metrics").status_code == 401
        line = json.loads(serving.stderr.readline()) if serving.stderr else {}

    assert (line["level"], line["path"], line["status"], line["reason"]) == ("info", "/metrics", 401, "no credential")
