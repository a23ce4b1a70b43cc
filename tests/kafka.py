"""A real broker of Kafka, and Spark's connector for it, as `scripts/setup-jars` has loaded them."""

import base64
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.testing.port import free_port
from tests.jars import jars
from tests.java import HASTE
from tests.listening import stop_process, wait_until_it_listens

_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={directory}/data
num.partitions={partitions}
auto.create.topics.enable=true
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""
_LOGGING = """\
<Configuration status="ERROR">
  <Appenders><Console name="out"><PatternLayout pattern="%d %p %c: %m%n"/></Console></Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


def connector() -> str:
    """Return the jars of Spark's connector, as `spark.jars` takes them.

    Raises:
        JarsMissing: they are not there.
    """
    return ",".join(map(str, jars("kafka-connector")))


class KafkaBroker:
    """A broker, which can be killed and started again; a topic is made when somebody writes to it.

    Args:
        directory: Where it keeps everything.
        partitions: How many a topic has that it makes.
        settings: Further lines of the broker's.
        options: Those of Java.

    Raises:
        JarsMissing: it is not there.
    """

    def __init__(
        self, directory: Path, *, partitions: int = 3, settings: str = "", options: Sequence[str] = (*HASTE, "-Xmx384m")
    ) -> None:
        path = ":".join(map(str, jars("kafka-broker")))
        self._port, self._log = free_port(), directory / "log"
        self._properties = directory / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        given = {"port": self._port, "controller": free_port(), "directory": directory, "partitions": partitions}
        self._properties.write_text(_SETTINGS.format(**given) + settings)
        (directory / "log4j2.xml").write_text(_LOGGING)
        self._java = ["java", *options, f"-Dlog4j2.configurationFile={directory}/log4j2.xml", "-cp", path]
        name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        format_ = [*self._java, "kafka.tools.StorageTool", "format", "-t", name, "-c", str(self._properties)]
        with self._log.open("wb") as said:
            subprocess.run(format_, stdout=said, stderr=said, check=True)

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        with self._log.open("ab") as said:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(self._properties)], stdout=said, stderr=said
            )
        wait_until_it_listens(self._process, self._port, self._log)

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Stop it, if it runs."""
        if self._process is not None:
            stop_process(self._process)


@contextmanager
def kafka_broker(directory: Path, **options: Any) -> Iterator[str]:
    """Run a `KafkaBroker` for as long as the block runs, and lend its address."""
    broker = KafkaBroker(directory, **options)
    try:
        broker.start()
        yield broker.address
    finally:
        broker.stop()
