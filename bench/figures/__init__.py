"""The figures, in the order of the table."""

from bench.figures import feed_read, publish, access, validated, idempotent  # noqa: F401, I001
from bench.figures import outbox, subscriptions, latency, idle, long_log  # noqa: F401
from bench.figures import spark, spark_typed, micro_batches, spark_sink, held_transaction  # noqa: F401
from bench.figures import cached_history, cold, processing, replicas, retention, soak, spark_cold  # noqa: F401
