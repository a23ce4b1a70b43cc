"""Listens on an address and serves a hub there until the process is told to stop."""

import asyncio
import errno
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Final, NoReturn

import structlog
import uvicorn

from penstock.cli.failures import CommandFailure
from penstock.server import HubApp
from penstock.server.http.http1 import BODY_TIMEOUT, HEADER_TIMEOUT, http1
from penstock.server.http.tls import ServerTls, TlsListener

# Counted from the signal, so that ten seconds are enough whatever the database does.
PATIENT_SECONDS: Final = 6.0
"""Seconds that requests under way have to finish. Then the hub stops, and answers those that wait for the database."""
COMMIT_SECONDS: Final = 1.0
"""Seconds that a transaction under way then has to end, before its outcome counts as unknown."""
GRACE_SECONDS: Final = 8
"""When the server ends the rest, such as a page to a slow reader."""
LAST_SECONDS: Final = 9.5
"""When the process leaves, though a thread of it may still wait for the database: to SQLite and PostgreSQL that is a
crash, which undoes what was not committed."""
BACKLOG: Final = 2048
TICK_SECONDS: Final = 1.0
"""How often the time in the answers' headers is brought up to date."""


def bind(host: str, port: int) -> socket.socket:
    """Take *port* of *host*; 0 is any that is free.

    Raises:
        CommandFailure: it is taken, or not this machine's; says what to do.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no name of a host"
        raise CommandFailure(f"--host {host} is no address: {why}", "Use 127.0.0.1, or 0.0.0.0 for all.") from error
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise CommandFailure(f"cannot listen on {host}:{port}: {error.strerror}", _advice(error, port)) from error
    return listener


def serve(
    app: HubApp,
    listener: socket.socket,
    announce: Callable[[], None],
    *,
    header_timeout: float = HEADER_TIMEOUT,
    body_timeout: float = BODY_TIMEOUT,
    tls: ServerTls | None = None,
) -> None:
    """Serve *app* on *listener* until SIGTERM or SIGINT, and call *announce* once it answers.

    The timeouts, in seconds, are those of `penstock.server.http.http1`. After the signal waits end at once, requests
    under way have six seconds, and the process ends with 0 before ten are over.
    """
    if tls is not None:
        tls.start()
        app.watch_certificate(tls.measure_seconds_left)
    config = uvicorn.Config(
        app,
        http=http1(header_timeout, body_timeout, app.limiter, app.take),
        ws="none",
        access_log=False,
        proxy_headers=False,  # The hub has to see the proxy's own address, to know whether it trusts it.
        log_config=None,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=30,
        ssl_context_factory=None if tls is None else lambda *_: tls.context,
    )
    # The server raises the signal again once it has stopped: ours then ends the process as a success.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    server = _Server(config, announce, app.give_up, header_timeout)
    server.run(sockets=[listener])
    if not server.started:
        sys.exit(1)  # The application's start failed, which has been logged.


def stop_with_stdin() -> None:
    """Stop this process as SIGTERM does once its standard input ends: when whatever started it is gone, however."""

    def watch() -> None:
        while os.read(0, 4096):  # Not by way of sys.stdin: its lock, held here, would abort a process that ends first.
            pass
        signal.raise_signal(signal.SIGTERM)

    threading.Thread(target=watch, name="penstock-parent", daemon=True).start()


class _Server(uvicorn.Server):
    def __init__(
        self,
        config: uvicorn.Config,
        announce: Callable[[], None],
        give_up: Callable[[float], None],
        handshake_timeout: float,
    ) -> None:
        super().__init__(config)
        self._handshake_timeout = handshake_timeout
        self._announce = announce
        self._give_up = give_up
        self._told, self._tell = os.pipe()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving = asyncio.Event()
        threading.Thread(target=self._leave_in_time, name="penstock-last", daemon=True).start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        os.write(self._tell, b"!")  # A signal may interrupt whoever holds a lock: this needs none.

    def _leave_in_time(self) -> None:
        os.read(self._told, 1)
        if self._loop is not None:
            with suppress(RuntimeError):  # It is over already.
                self._loop.call_soon_threadsafe(self._leaving.set)
        time.sleep(LAST_SECONDS)
        os._exit(0)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, then listen: uvicorn's own listening would give each TLS handshake a minute."""
        await super().startup(sockets=[])
        loop, tls, backlog = asyncio.get_running_loop(), self.config.ssl, self.config.backlog
        for each in sockets or ():
            server: Any
            if tls is None:
                server = await loop.create_server(self._make_protocol, sock=each, backlog=backlog)
            else:
                server = TlsListener(each, self._make_protocol, tls, self._handshake_timeout, backlog)
            self.servers.append(server)
        if self.started:
            self._announce()

    def _make_protocol(self) -> asyncio.Protocol:
        """Return a protocol for a connection, with the arguments that uvicorn gives each one."""
        make: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = make(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    async def main_loop(self) -> None:
        """Do as uvicorn's own, but once a second: ten times costs a hub that waits half as much as its looks do."""
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):  # By its count of ticks each one is a second.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._leaving.wait(), TICK_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log = structlog.get_logger("penstock.serve")
        log.info("stopping", connections=len(self.server_state.connections))
        late = asyncio.get_running_loop().call_later(PATIENT_SECONDS, self._lose_patience)
        await super().shutdown(sockets)
        late.cancel()
        log.info("stopped")

    def _lose_patience(self) -> None:
        log = structlog.get_logger("penstock.serve")
        log.warning("giving up on requests under way", requests=len(self.server_state.tasks))
        self._give_up(COMMIT_SECONDS)


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
