"""A real nginx before a hub, configured as people copy it: HTTP/1.1 to the hub, and `Upgrade` handed on."""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from penstock.testing.port import free_port
from penstock.testing.postgres import guard

# The hub's connections are kept alive and shared by all clients: what one client's request left on them would be taken
# for the beginning of another's. It lingers for a moment only before it closes, so that tests need not wait.
_SETTINGS: Final = """\
    client_max_body_size 100m;
    lingering_timeout 50ms;
    large_client_header_buffers 4 1m;
    map $http_upgrade $connection_upgrade {{
        default upgrade;
        '' '';
    }}
    upstream hub {{
        server 127.0.0.1:{hub_port};
        keepalive 4;
    }}
    proxy_http_version 1.1;
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection $connection_upgrade;
    server {{
        listen 127.0.0.1:{whole};
        location / {{ proxy_pass http://hub; }}
    }}
    server {{
        listen 127.0.0.1:{piecewise};
        location / {{
            proxy_pass http://hub;
            proxy_request_buffering off;
            proxy_buffering off;
        }}
    }}
"""
_FRAME: Final = """\
daemon off;
user {user};
worker_processes 1;
pid {directory}/pid;
error_log {directory}/error.log;
events {{ worker_connections 1024; }}
http {{
    log_format requests '$request_method $uri';
    access_log {directory}/requests requests;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
{settings}}}
"""


class Nginx(NamedTuple):
    """A running nginx: the ports on which it listens, and its log."""

    whole: int
    """Reads a request's body whole before it asks the hub, as nginx does by default."""
    piecewise: int
    """Hands a body on as it comes in."""
    log: Path
    """A line for each request that it has taken: its method and its path."""


@contextmanager
def nginx(hub_port: int) -> Iterator[Nginx]:
    """Run nginx before the hub that listens on *hub_port*; raise the errors of `run_nginx`."""
    whole, piecewise = free_port(), free_port()
    with run_nginx(_SETTINGS.format(hub_port=hub_port, whole=whole, piecewise=piecewise), piecewise) as directory:
        yield Nginx(whole, piecewise, directory / "requests")


@contextmanager
def run_nginx(settings: str, port: int) -> Iterator[Path]:
    """Run nginx with the *settings* of its block `http`, which have it listen on *port*; return its directory.

    Raises:
        FileNotFoundError: nginx is not installed; says what to do.
        RuntimeError: it ended instead of starting; says what it printed.
    """
    program = shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"]))
    if program is None:
        raise FileNotFoundError("nginx is not installed: make system, or on Debian apt-get install nginx")
    with tempfile.TemporaryDirectory(prefix="penstock-nginx-") as name:
        directory = Path(name)
        framed = _FRAME.format(user=getpass.getuser(), directory=directory, settings=settings)
        (directory / "nginx.conf").write_text(framed)
        command = [program, "-p", name, "-c", f"{name}/nginx.conf", "-e", f"{name}/error.log"]
        with (directory / "output").open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        ends_with_us = guard(process.pid)
        try:
            while not _listens(port):
                if process.poll() is not None:
                    said = [file.read_text() for file in (directory / "output", directory / "error.log")]
                    raise RuntimeError(f"nginx does not start: {''.join(said)[-4_000:]}")
            yield directory
        finally:
            process.terminate()  # Its fast shutdown, the workers included.
            process.wait(timeout=300)
            ends_with_us.kill()
            ends_with_us.communicate()


def _listens(port: int) -> bool:
    with contextlib.suppress(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=30).close()
        return True
    return False
