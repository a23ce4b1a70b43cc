"""Servers of the peers: on free ports of the loopback interface, with all their files in one folder."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from bench.place import ROOT
from penstock.testing.port import free_port
from tests.listening import stop_process, wait_until_it_listens

PEERS: Final = ROOT / "build" / "peers" / "bin"


class PeerMissing(Exception):
    """A peer's programs are not on this machine."""


class RabbitPorts(NamedTuple):
    """The ports of one RabbitMQ."""

    amqp: int
    stream: int


@contextmanager
def redis_server(directory: Path, fsync: str) -> Iterator[int]:
    """Run Redis with an append-only file that is flushed as *fsync* says; lend its port."""
    port = free_port()
    settings = {
        "port": port,
        "bind": "127.0.0.1",
        "dir": directory,
        "appendonly": "yes",
        "appendfsync": fsync,
        "save": "",  # No snapshots: the append-only file has everything.
    }
    options = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    with _running([find_program("redis-server"), *options], port, directory):
        yield port


@contextmanager
def nats_server(directory: Path, sync_interval: str) -> Iterator[int]:
    """Run NATS with JetStream, whose files are flushed as *sync_interval* says; lend its port."""
    port, settings = free_port(), directory / "nats.conf"
    settings.write_text(
        f'listen: "127.0.0.1:{port}"\nping_interval: "10m"\n'
        f'jetstream: {{store_dir: "{directory}/data", sync_interval: {sync_interval}}}\n'
    )
    with _running([str(PEERS / "nats-server"), "--config", str(settings)], port, directory):
        yield port


@contextmanager
def rabbitmq_server(directory: Path) -> Iterator[RabbitPorts]:
    """Run RabbitMQ as one node, with streams; lend its ports."""
    ports = RabbitPorts(free_port(), free_port())
    settings, plugins, mapper = directory / "rabbitmq.conf", directory / "enabled_plugins", free_port()
    settings.write_text(
        f"listeners.tcp.1 = 127.0.0.1:{ports.amqp}\nstream.listeners.tcp.1 = 127.0.0.1:{ports.stream}\n"
        f"stream.advertised_host = 127.0.0.1\nstream.advertised_port = {ports.stream}\n"
        "vm_memory_high_watermark.relative = 0.8\ndisk_free_limit.absolute = 50MB\n"
    )
    plugins.write_text("[rabbitmq_stream].\n")
    environment = {
        "HOME": directory,
        "ERL_EPMD_PORT": mapper,
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_DIST_PORT": free_port(),
        "RABBITMQ_CONFIG_FILE": settings,
        "RABBITMQ_CONF_ENV_FILE": directory / "none",
        "RABBITMQ_ENABLED_PLUGINS_FILE": plugins,
        "RABBITMQ_MNESIA_BASE": directory / "data",
        "RABBITMQ_LOG_BASE": directory / "logs",
    }
    # RabbitMQ would start it as a daemon that stays.
    with (
        _running([find_program("epmd")], mapper, directory, environment),
        _running([_find_rabbitmq()], ports.stream, directory, environment),
    ):
        yield ports


@contextmanager
def nginx_server(directory: Path, files: Path, more: str = "") -> Iterator[int]:
    """Serve files by nginx; lend its port. *more* is configuration of its block `http`."""
    port, settings = free_port(), directory / "nginx.conf"
    temporary = "".join(
        f"{kind}_temp_path {directory}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;\n" if os.geteuid() == 0 else ""  # So that its workers may read the files.
    settings.write_text(
        f"{user}daemon off;\nworker_processes 1;\npid {directory}/pid;\nerror_log stderr;\n"
        f"events {{ worker_connections 1024; }}\nhttp {{\n{temporary}access_log off;\nsendfile on;\ntcp_nopush on;\n"
        f"keepalive_requests 1000000000;\nopen_file_cache max=1000;\n"
        f"{more}server {{ listen 127.0.0.1:{port}; root {files}; }}\n}}\n"
    )
    with _running([find_program("nginx"), "-e", "stderr", "-c", str(settings)], port, directory):
        yield port


def find_program(name: str) -> str:
    """Return the path of a program.

    Raises:
        PeerMissing: it is not installed.
    """
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        raise PeerMissing(f"{name} is not installed: run `make bench-peers`")
    return found


def _find_rabbitmq() -> str:
    """Return RabbitMQ's own script, since Debian's runs it as another user, who may not write here."""
    installed = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    return str(installed[-1]) if installed else find_program("rabbitmq-server")


@contextmanager
def _running(
    command: Sequence[str], port: int, directory: Path, environment: Mapping[str, object] | None = None
) -> Iterator[None]:
    """Run a server until the block ends, or until this process does, however it ends."""
    log = directory / f"{Path(command[0]).name}.log"
    variables = os.environ | {name: str(value) for name, value in (environment or {}).items()}
    with ExitStack() as stack, log.open("wb") as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=variables, start_new_session=True
        )
        stack.callback(_stop, process)
        stack.enter_context(_guard(process.pid))
        wait_until_it_listens(process, port, log)
        yield


@contextmanager
def _guard(session: int) -> Iterator[None]:
    """Have a process end all of a session when this process has ended, even by `kill -9`.

    It waits at a pipe whose other end only this process holds.
    """
    command = ["sh", "-c", 'read -r _; kill -KILL "-$1"', "sh", str(session)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        process.kill()
        process.communicate()


def _stop(process: "subprocess.Popen[bytes]") -> None:
    stop_process(process)
    with suppress(ProcessLookupError):  # There are some only if it has left them behind.
        os.killpg(process.pid, signal.SIGKILL)
