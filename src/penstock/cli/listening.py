"""Listens on an address and serves a hub there until the process is told to stop."""

import errno
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Final, NoReturn

import structlog
import uvicorn

from penstock.cli.failures import Failure
from penstock.server import HubApp

GRACE_SECONDS: Final = 8
"""What requests under way have to finish; the rest of ten seconds is for the hub itself."""
BACKLOG: Final = 2048


def bind(host: str, port: int) -> socket.socket:
    """Take *port* of *host*; 0 is any that is free.

    Raises:
        Failure: it is taken, or not this machine's; says what to do.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise Failure(f"--host {host} is no address: {error.strerror}", "Use 127.0.0.1, or 0.0.0.0 for all.") from error
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise Failure(f"cannot listen on {host}:{port}: {error.strerror}", _advice(error, port)) from error
    return listener


def serve(app: HubApp, listener: socket.socket, announce: Callable[[], None]) -> None:
    """Serve *app* on *listener* until SIGTERM or SIGINT, and call *announce* once it answers.

    Then waits end at once, requests under way have eight seconds, and the process ends with 0.
    """
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=30,
    )
    # The server raises the signal again once it has stopped: ours then ends the process as a success.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    server = _Server(config, announce)
    server.run(sockets=[listener])
    if not server.started:
        sys.exit(1)  # The application's start failed, which has been logged.


def stop_with_stdin() -> None:
    """Stop this process as SIGTERM does once its standard input ends: when whatever started it is gone, however."""

    def watch() -> None:
        while sys.stdin.buffer.read(4096):
            pass
        signal.raise_signal(signal.SIGTERM)

    threading.Thread(target=watch, name="penstock-parent", daemon=True).start()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log = structlog.get_logger("penstock.serve")
        log.info("stopping", connections=len(self.server_state.connections))
        await super().shutdown(sockets)
        log.info("stopped")


def _leave(_: int, __: object) -> NoReturn:
    sys.exit(0)


def _advice(error: OSError, port: int) -> str | None:
    match error.errno:
        case errno.EADDRINUSE:
            return f"Something else listens there. Stop it, or choose another port: --port {port + 1}."
        case errno.EACCES:
            return "Ports below 1024 are for root: choose a higher one with --port."
        case errno.EADDRNOTAVAIL:
            return "It is no address of this machine: use 127.0.0.1, or 0.0.0.0 for all addresses."
    return None
