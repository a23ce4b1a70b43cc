"""A real broker of Kafka, and Spark's connector for it, as `scripts/setup-jars` has loaded them."""

import base64
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

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


@contextmanager
def kafka_broker(
    directory: Path, *, partitions: int = 3, settings: str = "", options: Sequence[str] = (*HASTE, "-Xmx384m")
) -> Iterator[str]:
    """Run a broker for as long as the block runs, and lend its address; a topic is made when somebody writes to it.

    *settings* are further lines of the broker's, *options* those of Java.

    Raises:
        JarsMissing: it is not there.
    """
    path = ":".join(map(str, jars("kafka-broker")))
    port, properties, log = free_port(), directory / "server.properties", directory / "log"
    given = {"port": port, "controller": free_port(), "directory": directory, "partitions": partitions}
    properties.write_text(_SETTINGS.format(**given) + settings)
    (directory / "log4j2.xml").write_text(_LOGGING)
    java = ["java", *options, f"-Dlog4j2.configurationFile={directory}/log4j2.xml", "-cp", path]
    with log.open("wb") as said:
        name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        format_ = [*java, "kafka.tools.StorageTool", "format", "-t", name, "-c", str(properties)]
        subprocess.run(format_, stdout=said, stderr=said, check=True)
        process = subprocess.Popen([*java, "kafka.Kafka", str(properties)], stdout=said, stderr=said)
    try:
        wait_until_it_listens(process, port, log)
        yield f"127.0.0.1:{port}"
    finally:
        stop_process(process)
