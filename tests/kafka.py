"""A real broker of Kafka, and Spark's connector for it, as `scripts/setup-jars` has loaded them."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.port import free_port
from tests.jars import PLACE, JarsMissing, jars
from tests.java import HASTE
from tests.listening import stop_process, wait_until_it_listens

_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
username="hub" password="secret" user_hub="secret";
log.dirs={directory}/data
num.partitions={partitions}
auto.create.topics.enable=true
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
"""
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
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
        self._port, self._sasl_port, self._log = free_port(), free_port(), directory / "log"
        self._properties = directory / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        given = {"port": self._port, "sasl": self._sasl_port, "controller": free_port()}
        self._properties.write_text(_SETTINGS.format(**given, directory=directory, partitions=partitions) + settings)
        (directory / "log4j2.xml").write_text(_LOGGING)
        self._java = ["java", *options, f"-Dlog4j2.configurationFile={directory}/log4j2.xml", "-cp", path]
        shutil.copytree(self._formatted(), directory / "data")

    def _formatted(self) -> Path:
        """Return a directory as a broker begins with, which Kafka makes once: that takes a third of a start."""
        place = PLACE / "kafka-broker" / "formatted"
        if not place.exists():
            with tempfile.TemporaryDirectory(dir=place.parent) as directory:
                properties = Path(directory) / "server.properties"
                given = {"port": 9091, "sasl": 9092, "controller": 9093}
                properties.write_text(_SETTINGS.format(**given, directory=directory, partitions=1))
                words = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(properties)]
                with self._log.open("wb") as said:
                    subprocess.run([*self._java, *words], stdout=said, stderr=said, check=True)
                try:
                    (Path(directory) / "data").rename(place)
                except OSError:
                    assert place.exists(), "unless another process of the test run was faster"
        return place

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self._port}"

    @property
    def sasl_address(self) -> str:
        """Where it listens for clients that say that they are `hub`, by the password `secret`."""
        return f"127.0.0.1:{self._sasl_port}"

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
def kafka_broker(directory: Path, **options: Any) -> Iterator[KafkaBroker]:
    """Run a `KafkaBroker` for as long as the block runs."""
    broker = KafkaBroker(directory, **options)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker of Kafka, for all tests of the folder whose `conftest.py` imports this."""
    try:
        with kafka_broker(tmp_path_factory.mktemp("kafka")) as broker:
            yield broker
    except JarsMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="package")
def kafka(broker: KafkaBroker) -> str:
    """The address of that broker."""
    return broker.address
