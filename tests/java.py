"""How Java runs here."""

from typing import Final

HASTE: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""What lives as short as Spark and Kafka in a test is not worth to be compiled well: this halves what they compute."""
