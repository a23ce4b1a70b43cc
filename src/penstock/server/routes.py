"""The routing table: every route, its handler, and how the OpenAPI document describes it."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from penstock.server import admin, batches, groups, operations, producers, registry
from penstock.server.log import event_stream, feeds, nakadi, publish
from penstock.server.openapi import admin as admin_shapes
from penstock.server.openapi import batches as batch_shapes
from penstock.server.openapi import groups as group_shapes
from penstock.server.openapi import log as log_shapes
from penstock.server.openapi import producers as producer_shapes
from penstock.server.openapi import shapes
from penstock.server.openapi import subscriptions as subscription_shapes
from penstock.server.openapi.operation import Operation
from penstock.server.subscriptions import cursors, parked, stream, subscriptions

GET, POST, PUT, PATCH, DELETE = (partial(Operation, method) for method in ("GET", "POST", "PUT", "PATCH", "DELETE"))

_LOG: Final[Sequence[Operation]] = (
    GET("/feeds/{event_type}", feeds.read_feed, shapes.PAGE_V1, log_shapes.V1),
    POST("/feeds/{event_type}", feeds.publish, shapes.PUBLISHED, log_shapes.PUBLISH, shapes.NEW_LINES),
    GET("/feeds/{event_type}/events", feeds.read_partition, shapes.PAGE_V2, log_shapes.V2),
    POST("/event-types/{event_type}/events", publish.publish_batch, shapes.PUBLISHED_BATCH, body=shapes.BATCH),
    POST("/event-types/{event_type}/deleted-events", publish.delete_events, shapes.PUBLISHED_BATCH, body=shapes.BATCH),
)

_PARTITION: Final = "/event-types/{event_type}/partitions/{partition}"
_PRODUCERS: Final = f"{_PARTITION}/producers"
_PRODUCER: Final = f"{_PRODUCERS}/{{group}}"

_IDEMPOTENT: Final[Sequence[Operation]] = tuple(
    each._replace(in_path=producer_shapes.IN_PATH)
    for each in (
        POST(
            f"{_PARTITION}/events",
            producers.publish_to_partition,
            producer_shapes.PUBLISHED,
            producer_shapes.OF_PUBLISH,
            producer_shapes.PUBLISHED_BODY,
        ),
        GET(_PRODUCERS, producers.list_producers, producer_shapes.PRODUCERS, producer_shapes.OF_LIST),
        POST(_PRODUCERS, producers.allocate_producer, producer_shapes.ALLOCATED, body=producer_shapes.CLAIM),
        GET(_PRODUCER, producers.show_producer, producer_shapes.PRODUCER),
        PUT(_PRODUCER, producers.claim_producer, producer_shapes.CLAIMED, body=producer_shapes.CLAIM),
        DELETE(_PRODUCER, producers.forget_producer, producer_shapes.FORGOTTEN),
        GET(
            f"{_PRODUCER}/sequences/{{first}}",
            producers.find_sequence,
            producer_shapes.FOUND,
            producer_shapes.OF_SEQUENCE,
        ),
    )
)

_UPLOADS: Final = "/event-types/{event_type}/uploads"
_BATCHES: Final = "/event-types/{event_type}/producers/{group}/batches"
_BATCH: Final = f"{_BATCHES}/{{batch}}"

_STAGED: Final[Sequence[Operation]] = tuple(
    each._replace(in_path=batch_shapes.IN_PATH)
    for each in (
        POST(_UPLOADS, batches.open_upload, batch_shapes.OPENED, body=batch_shapes.OPEN),
        PUT(
            f"{_UPLOADS}/{{upload}}/chunks/{{chunk}}",
            batches.put_chunk,
            batch_shapes.CHUNK,
            batch_shapes.OF_CHUNK,
            batch_shapes.LINES,
        ),
        DELETE(f"{_UPLOADS}/{{upload}}", batches.drop_upload, batch_shapes.DROPPED),
        PUT(_BATCH, batches.publish_uploads, batch_shapes.BATCH, body=batch_shapes.PUBLISH),
        PUT(f"{_BATCH}/manifest", batches.begin_batch, batch_shapes.BATCH, body=batch_shapes.BEGIN),
        PUT(f"{_BATCH}/counts", batches.complete_batch, batch_shapes.BATCH, body=batch_shapes.COMPLETE),
        GET(_BATCH, batches.show_batch, batch_shapes.BATCH),
        GET(_BATCHES, batches.list_batches, batch_shapes.BATCHES, batch_shapes.OF_LIST),
        DELETE(_BATCHES, batches.forget_batches, batch_shapes.FORGOTTEN, batch_shapes.OF_FORGET),
    )
)

_SUBSCRIPTION: Final = "/subscriptions/{subscription}"
_PARKED: Final = f"{_SUBSCRIPTION}/parked"

_SUBSCRIPTIONS: Final[Sequence[Operation]] = tuple(
    each._replace(in_path=subscription_shapes.IN_PATH)
    for each in (
        POST(
            f"{_SUBSCRIPTION}/cursors",
            cursors.commit_cursors,
            subscription_shapes.COMMITTED,
            subscription_shapes.OF_COMMIT,
            subscription_shapes.COMMIT,
        ),
        GET(
            f"{_SUBSCRIPTION}/events",
            stream.stream_by_query,
            subscription_shapes.STREAM,
            subscription_shapes.OF_STREAM,
        ),
        POST(
            f"{_SUBSCRIPTION}/events",
            stream.stream_by_body,
            subscription_shapes.STREAM,
            body=subscription_shapes.STREAM_BODY,
        ),
        GET(
            "/subscriptions",
            subscriptions.list_subscriptions,
            subscription_shapes.SUBSCRIPTIONS,
            subscription_shapes.OF_LIST,
        ),
        POST(
            "/subscriptions",
            subscriptions.create_subscription,
            subscription_shapes.CREATED,
            body=subscription_shapes.NEW_SUBSCRIPTION,
        ),
        GET(_SUBSCRIPTION, subscriptions.show_subscription, subscription_shapes.SUBSCRIPTION),
        PUT(
            _SUBSCRIPTION,
            subscriptions.replace_subscription,
            subscription_shapes.DONE,
            body=subscription_shapes.NEW_SUBSCRIPTION,
        ),
        DELETE(_SUBSCRIPTION, subscriptions.delete_subscription, subscription_shapes.DONE),
        GET(f"{_SUBSCRIPTION}/cursors", cursors.show_cursors, subscription_shapes.CURSORS),
        PATCH(
            f"{_SUBSCRIPTION}/cursors",
            cursors.reset_cursors,
            subscription_shapes.MOVED,
            body=subscription_shapes.RESET,
        ),
        GET(
            f"{_SUBSCRIPTION}/stats", subscriptions.show_stats, subscription_shapes.STATS, subscription_shapes.OF_STATS
        ),
        POST(f"{_SUBSCRIPTION}/streams/{{stream}}/lease", cursors.extend_lease, subscription_shapes.DONE),
        POST(
            f"{_SUBSCRIPTION}/streams/{{stream}}/release",
            cursors.release_stream,
            subscription_shapes.DONE,
            body=subscription_shapes.RELEASE,
        ),
        GET(_PARKED, parked.list_parked, subscription_shapes.PARKED_KEYS),
        GET(f"{_PARKED}/{{parked}}", parked.show_parked, subscription_shapes.PARKED_KEY, subscription_shapes.OF_PARKED),
        POST(f"{_PARKED}/retry", parked.retry_all_parked, subscription_shapes.RETRIED),
        POST(f"{_PARKED}/{{parked}}/retry", parked.retry_parked, subscription_shapes.DONE),
        POST(
            f"{_PARKED}/{{parked}}/skip", parked.skip_parked, subscription_shapes.DONE, body=subscription_shapes.REASON
        ),
    )
)

_EVENT_TYPE: Final = "/event-types/{event_type}"
_SCHEMA: Final = f"{_EVENT_TYPE}/schemas/{{version}}"

_REGISTRY: Final[Sequence[Operation]] = (
    GET("/event-types", registry.list_event_types, shapes.EVENT_TYPES, log_shapes.EVENT_TYPES),
    POST("/event-types", registry.create_event_type, shapes.CREATED, body=shapes.NEW_EVENT_TYPE),
    GET(_EVENT_TYPE, registry.show_event_type, shapes.EVENT_TYPE),
    PUT(_EVENT_TYPE, registry.replace_event_type, shapes.CHANGED, log_shapes.REORDERING, shapes.NEW_EVENT_TYPE),
    DELETE(_EVENT_TYPE, registry.delete_event_type, shapes.DELETED),
    PUT(f"{_EVENT_TYPE}/partition-count", registry.grow_event_type, shapes.DONE, body=shapes.COUNT),
    POST(
        f"{_EVENT_TYPE}/definition-check",
        registry.check_definition,
        shapes.TAKEN,
        log_shapes.REORDERING,
        shapes.NEW_EVENT_TYPE,
    ),
    GET(f"{_EVENT_TYPE}/schemas", registry.list_schemas, shapes.SCHEMAS, log_shapes.SCHEMAS),
    POST(f"{_EVENT_TYPE}/schemas", registry.add_schema, shapes.ADDED, log_shapes.FETCH, shapes.NEW_SCHEMA),
    GET(_SCHEMA, registry.show_schema, shapes.SCHEMA),
    POST(f"{_SCHEMA}/compatibility-check", registry.compare_schema, shapes.COMPARISON, body=shapes.COMPARED),
)

_LOW_LEVEL: Final[Sequence[Operation]] = (
    GET(f"{_EVENT_TYPE}/events", event_stream.stream_events, log_shapes.STREAM, log_shapes.OF_STREAM),
    GET(f"{_EVENT_TYPE}/partitions", nakadi.list_partitions, log_shapes.PARTITIONS, log_shapes.OF_PARTITIONS),
    GET(
        f"{_EVENT_TYPE}/partitions/{{partition}}",
        nakadi.show_partition,
        log_shapes.PARTITION,
        log_shapes.OF_PARTITION,
        in_path=log_shapes.IN_PATH,
    ),
    GET(f"{_EVENT_TYPE}/cursors", nakadi.find_cursors, log_shapes.CURSORS, log_shapes.OF_TIME),
    POST(f"{_EVENT_TYPE}/cursor-distances", nakadi.measure_distances, log_shapes.DISTANCES, body=log_shapes.PAIRS),
    POST(f"{_EVENT_TYPE}/shifted-cursors", nakadi.shift_cursors, log_shapes.CURSORS, body=log_shapes.SHIFTS),
    POST(f"{_EVENT_TYPE}/cursors-lag", nakadi.measure_lag, log_shapes.PARTITIONS, body=log_shapes.PLACES),
)

_GROUP: Final = "/groups/{group}"

_GROUPS: Final[Sequence[Operation]] = (
    GET("/groups", groups.list_groups, group_shapes.GROUPS, group_shapes.OF_LIST),
    *(
        each._replace(in_path=group_shapes.IN_PATH, any_text=True)
        for each in (
            POST(f"{_GROUP}/positions", groups.commit_positions, group_shapes.COMMITTED, body=group_shapes.COMMIT),
            PATCH(f"{_GROUP}/positions", groups.reset_positions, group_shapes.RESET, body=group_shapes.NEW_RESET),
            GET(f"{_GROUP}/history", groups.show_history, group_shapes.HISTORY, group_shapes.OF_HISTORY),
            GET(_GROUP, groups.show_group, group_shapes.GROUP),
            DELETE(_GROUP, groups.forget_group, group_shapes.FORGOTTEN),
        )
    ),
)

_ADMIN: Final[Sequence[Operation]] = (
    GET("/registry/enrichment-strategies", registry.list_enrichment_strategies, admin_shapes.STRATEGIES),
    GET("/registry/partition-strategies", registry.list_partition_strategies, admin_shapes.STRATEGIES),
    GET("/settings/admins", admin.show_administrators, admin_shapes.ADMINISTRATORS),
    POST(
        "/settings/admins",
        admin.replace_administrators,
        admin_shapes.REPLACED,
        body=admin_shapes.NEW_ADMINISTRATORS,
    ),
    GET("/settings/blacklist", admin.show_blacklist, admin_shapes.BLACKLIST),
    PUT("/settings/blacklist/{type}/{name}", admin.block, admin_shapes.BLOCKED, in_path=admin_shapes.BLOCK),
    DELETE("/settings/blacklist/{type}/{name}", admin.unblock, admin_shapes.UNBLOCKED, in_path=admin_shapes.BLOCK),
    GET("/settings/features", admin.show_features, admin_shapes.ALL_FEATURES),
    POST("/settings/features", admin.switch_feature, admin_shapes.SWITCHED, body=admin_shapes.SWITCH),
    GET("/storages", admin.list_storages, admin_shapes.STORAGES),
    POST("/storages", admin.add_storage, admin_shapes.NO_OTHER),
    GET("/storages/{id}", admin.show_storage, admin_shapes.STORAGE, in_path=admin_shapes.ID),
    DELETE("/storages/{id}", admin.delete_storage, admin_shapes.IN_USE, in_path=admin_shapes.ID),
    PUT("/storages/default/{id}", admin.choose_storage, admin_shapes.STORAGE, in_path=admin_shapes.ID),
    GET("/event-types/{event_type}/timelines", admin.list_timelines, admin_shapes.TIMELINES),
    POST("/event-types/{event_type}/timelines", admin.add_timeline, admin_shapes.NO_OTHER),
)

_OPERATIONS: Final[Sequence[Operation]] = (
    GET("/", operations.index, shapes.INDEX),
    GET("/health", operations.health, shapes.OK),
    GET("/health/live", operations.live, shapes.STATUS),
    GET("/health/ready", operations.ready, shapes.STATUS),
    GET("/version", operations.version, shapes.VERSION),
    GET("/metrics", operations.metrics, shapes.METRICS),
    GET("/openapi.json", operations.openapi, shapes.DESCRIPTION),
    GET("/docs", operations.docs, shapes.DOCS),
)

ROUTES: Final[Sequence[Operation]] = (
    *_LOG,
    *_IDEMPOTENT,
    *_STAGED,
    *_SUBSCRIPTIONS,
    *_REGISTRY,
    *_LOW_LEVEL,
    *_GROUPS,
    *_ADMIN,
    *_OPERATIONS,
)
"""Every route, tried in this order, so that the busiest come first; HEAD goes with each GET."""
