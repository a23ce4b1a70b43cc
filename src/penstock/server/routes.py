"""The routing table: every route, the permission that it needs, its handler, and its description in OpenAPI."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from penstock.server import (
    admin,
    asyncapi,
    batches,
    caller,
    groups,
    operations,
    producers,
    registry,
    statistics,
    tokens,
)
from penstock.server.console import pages
from penstock.server.docs import pages as docs
from penstock.server.log import cold_files, erasures, event_stream, feeds, nakadi, outbox, publish
from penstock.server.openapi import admin as admin_shapes
from penstock.server.openapi import batches as batch_shapes
from penstock.server.openapi import groups as group_shapes
from penstock.server.openapi import log as log_shapes
from penstock.server.openapi import operations as operator_shapes
from penstock.server.openapi import outbox as outbox_shapes
from penstock.server.openapi import producers as producer_shapes
from penstock.server.openapi import registry as registry_shapes
from penstock.server.openapi import subscriptions as subscription_shapes
from penstock.server.openapi.operation import HttpOperation
from penstock.server.subscriptions import cursors, parked, stream, subscriptions

GET, POST, PUT, PATCH, DELETE = (partial(HttpOperation, method) for method in ("GET", "POST", "PUT", "PATCH", "DELETE"))

PUBLISH_LINES: Final = POST(
    "/feeds/{event_type}",
    "write",
    publish.publish_lines,
    log_shapes.PUBLISHED,
    log_shapes.PUBLISH,
    log_shapes.NEW_EVENTS,
    event="publish",
)
_DISCOVERY: Final = GET("/feeds/{event_type}", "view", feeds.discover_feed, log_shapes.DISCOVERY)

_LOG: Final[Sequence[HttpOperation]] = (
    GET(
        "/feeds/{event_type}",
        "read",
        feeds.read_feed,
        log_shapes.PAGE_V1,
        log_shapes.V1,
        event="read",
        without_query=_DISCOVERY,
    ),
    PUBLISH_LINES,
    GET("/feeds/{event_type}/events", "read", feeds.read_partition, log_shapes.PAGE_V2, log_shapes.V2, event="read"),
    POST(
        "/event-types/{event_type}/events",
        "write",
        publish.publish_batch,
        log_shapes.PUBLISHED_BATCH,
        body=log_shapes.BATCH,
        event="publish",
    ),
    POST(
        "/event-types/{event_type}/deleted-events",
        "write",
        publish.delete_events,
        log_shapes.PUBLISHED_BATCH,
        body=log_shapes.BATCH,
        event="publish",
    ),
)

_PARTITION: Final = "/event-types/{event_type}/partitions/{partition}"
_PRODUCERS: Final = f"{_PARTITION}/producers"
_PRODUCER: Final = f"{_PRODUCERS}/{{group}}"

_IDEMPOTENT: Final[Sequence[HttpOperation]] = tuple(
    each._replace(in_path=producer_shapes.IN_PATH)
    for each in (
        POST(
            f"{_PARTITION}/events",
            "write",
            producers.publish_to_partition,
            producer_shapes.PUBLISHED,
            producer_shapes.OF_PUBLISH,
            producer_shapes.PUBLISHED_BODY,
            event="publish",
        ),
        GET(_PRODUCERS, "view", producers.list_producers, producer_shapes.PRODUCERS, producer_shapes.OF_LIST),
        POST(_PRODUCERS, "write", producers.allocate_producer, producer_shapes.ALLOCATED, body=producer_shapes.CLAIM),
        GET(_PRODUCER, "view", producers.show_producer, producer_shapes.PRODUCER),
        PUT(_PRODUCER, "write", producers.claim_producer, producer_shapes.CLAIMED, body=producer_shapes.CLAIM),
        DELETE(_PRODUCER, "own", producers.forget_producer, producer_shapes.FORGOTTEN),
        GET(
            f"{_PRODUCER}/sequences/{{first}}",
            "view",
            producers.find_sequence,
            producer_shapes.FOUND,
            producer_shapes.OF_SEQUENCE,
        ),
    )
)

_UPLOADS: Final = "/event-types/{event_type}/uploads"
_BATCHES: Final = "/event-types/{event_type}/producers/{group}/batches"
_BATCH: Final = f"{_BATCHES}/{{batch}}"

_STAGED: Final[Sequence[HttpOperation]] = tuple(
    each._replace(in_path=batch_shapes.IN_PATH)
    for each in (
        POST(_UPLOADS, "write", batches.open_upload, batch_shapes.OPENED, body=batch_shapes.OPEN),
        PUT(
            f"{_UPLOADS}/{{upload}}/chunks/{{chunk}}",
            "write",
            batches.put_chunk,
            batch_shapes.CHUNK,
            batch_shapes.OF_CHUNK,
            batch_shapes.LINES,
        ),
        DELETE(f"{_UPLOADS}/{{upload}}", "write", batches.drop_upload, batch_shapes.DROPPED),
        PUT(_BATCH, "write", batches.publish_uploads, batch_shapes.BATCH, body=batch_shapes.PUBLISH, event="publish"),
        GET(_BATCH, "view", batches.show_batch, batch_shapes.BATCH),
        GET(_BATCHES, "view", batches.list_batches, batch_shapes.BATCHES, batch_shapes.OF_LIST),
        DELETE(_BATCHES, "own", batches.forget_batches, batch_shapes.FORGOTTEN),
    )
)

_SUBSCRIPTION: Final = "/subscriptions/{subscription}"
_PARKED: Final = f"{_SUBSCRIPTION}/parked"

_SUBSCRIPTIONS: Final[Sequence[HttpOperation]] = tuple(
    each._replace(in_path=subscription_shapes.IN_PATH)
    for each in (
        POST(
            f"{_SUBSCRIPTION}/cursors",
            "read",
            cursors.commit_cursors,
            subscription_shapes.COMMITTED,
            subscription_shapes.OF_COMMIT,
            subscription_shapes.COMMIT,
            event="commit",
        ),
        GET(
            f"{_SUBSCRIPTION}/events",
            "read",
            stream.stream_by_query,
            subscription_shapes.STREAM,
            subscription_shapes.OF_STREAM,
            event="read",
        ),
        POST(
            f"{_SUBSCRIPTION}/events",
            "read",
            stream.stream_by_body,
            subscription_shapes.STREAM,
            subscription_shapes.OF_STREAM_BY_BODY,
            body=subscription_shapes.STREAM_BODY,
            event="read",
        ),
        GET(
            "/subscriptions",
            "view",
            subscriptions.list_subscriptions,
            subscription_shapes.SUBSCRIPTIONS,
            subscription_shapes.OF_LIST,
        ),
        POST(
            "/subscriptions",
            "create",
            subscriptions.create_subscription,
            subscription_shapes.CREATED,
            body=subscription_shapes.NEW_SUBSCRIPTION,
        ),
        GET(_SUBSCRIPTION, "view", subscriptions.show_subscription, subscription_shapes.SUBSCRIPTION),
        PUT(
            _SUBSCRIPTION,
            "admin",
            subscriptions.replace_subscription,
            subscription_shapes.DONE,
            body=subscription_shapes.NEW_SUBSCRIPTION,
        ),
        DELETE(_SUBSCRIPTION, "admin", subscriptions.delete_subscription, subscription_shapes.DONE),
        GET(f"{_SUBSCRIPTION}/cursors", "view", cursors.show_cursors, subscription_shapes.CURSORS),
        PATCH(
            f"{_SUBSCRIPTION}/cursors",
            "admin",
            cursors.reset_cursors,
            subscription_shapes.MOVED,
            body=subscription_shapes.RESET,
        ),
        GET(
            f"{_SUBSCRIPTION}/stats",
            "view",
            subscriptions.show_stats,
            subscription_shapes.STATS,
            subscription_shapes.OF_STATS,
        ),
        POST(f"{_SUBSCRIPTION}/streams/{{stream}}/lease", "read", cursors.extend_lease, subscription_shapes.DONE),
        POST(
            f"{_SUBSCRIPTION}/streams/{{stream}}/release",
            "read",
            cursors.release_stream,
            subscription_shapes.DONE,
            body=subscription_shapes.RELEASE,
        ),
        GET(_PARKED, "view", parked.list_parked, subscription_shapes.PARKED_KEYS),
        GET(
            f"{_PARKED}/{{parked}}",
            "view",
            parked.show_parked,
            subscription_shapes.PARKED_KEY,
            subscription_shapes.OF_PARKED,
        ),
        POST(f"{_PARKED}/retry", "admin", parked.retry_all_parked, subscription_shapes.RETRIED),
        POST(f"{_PARKED}/{{parked}}/retry", "admin", parked.retry_parked, subscription_shapes.DONE),
        POST(
            f"{_PARKED}/{{parked}}/skip",
            "admin",
            parked.skip_parked,
            subscription_shapes.DONE,
            body=subscription_shapes.REASON,
        ),
    )
)

_EVENT_TYPE: Final = "/event-types/{event_type}"
_SCHEMA: Final = f"{_EVENT_TYPE}/schemas/{{version}}"

_REGISTRY: Final[Sequence[HttpOperation]] = (
    GET("/event-types", "view", registry.list_event_types, registry_shapes.EVENT_TYPES, registry_shapes.OF_LIST),
    POST(
        "/event-types",
        "create",
        registry.create_event_type,
        registry_shapes.CREATED,
        body=registry_shapes.NEW_EVENT_TYPE,
    ),
    GET(_EVENT_TYPE, "view", registry.show_event_type, registry_shapes.EVENT_TYPE),
    PUT(
        _EVENT_TYPE,
        "admin",
        registry.replace_event_type,
        registry_shapes.CHANGED,
        registry_shapes.OF_REPLACE,
        registry_shapes.NEW_EVENT_TYPE,
    ),
    DELETE(_EVENT_TYPE, "admin", registry.delete_event_type, registry_shapes.DELETED),
    GET(
        f"{_EVENT_TYPE}/cold-files",
        "read",
        cold_files.list_cold_files,
        log_shapes.COLD_FILES,
        log_shapes.OF_COLD_FILES,
        event="read",
    ),
    POST(f"{_EVENT_TYPE}/erasures", "admin", erasures.erase, log_shapes.ERASURE_BEGUN, body=log_shapes.NEW_ERASURE),
    GET(f"{_EVENT_TYPE}/erasures", "admin", erasures.list_erasures, log_shapes.ERASURES),
    GET(f"{_EVENT_TYPE}/erasures/{{id}}", "admin", erasures.show_erasure, log_shapes.ERASURE, in_path=admin_shapes.ID),
    GET(f"{_EVENT_TYPE}/producers", "view", registry.list_event_type_producers, registry_shapes.EVENT_TYPE_PRODUCERS),
    GET(f"{_EVENT_TYPE}/consumers", "view", registry.list_event_type_consumers, registry_shapes.EVENT_TYPE_CONSUMERS),
    PUT(
        f"{_EVENT_TYPE}/partition-count",
        "admin",
        registry.grow_event_type,
        registry_shapes.DONE,
        body=registry_shapes.COUNT,
    ),
    POST(
        f"{_EVENT_TYPE}/definition-check",
        "admin",
        registry.check_definition,
        registry_shapes.TAKEN,
        registry_shapes.OF_REPLACE,
        registry_shapes.NEW_EVENT_TYPE,
        may_be_missing=True,
    ),
    GET(f"{_EVENT_TYPE}/schemas", "view", registry.list_schemas, registry_shapes.SCHEMAS, registry_shapes.OF_SCHEMAS),
    POST(
        f"{_EVENT_TYPE}/schemas",
        "admin",
        registry.add_schema,
        registry_shapes.ADDED,
        registry_shapes.OF_ADD,
        registry_shapes.NEW_SCHEMA,
    ),
    GET(_SCHEMA, "view", registry.show_schema, registry_shapes.SCHEMA),
    POST(
        f"{_SCHEMA}/compatibility-check",
        "view",
        registry.compare_schema,
        registry_shapes.COMPARISON,
        body=registry_shapes.COMPARED,
    ),
)

_LOW_LEVEL: Final[Sequence[HttpOperation]] = (
    GET(
        f"{_EVENT_TYPE}/events",
        "read",
        event_stream.stream_events,
        log_shapes.STREAM,
        log_shapes.OF_STREAM,
        event="read",
    ),
    GET(f"{_EVENT_TYPE}/partitions", "view", nakadi.list_partitions, log_shapes.PARTITIONS, log_shapes.OF_PARTITIONS),
    GET(
        f"{_EVENT_TYPE}/partitions/{{partition}}",
        "read",
        nakadi.show_partition,
        log_shapes.PARTITION,
        log_shapes.OF_PARTITION,
        in_path=log_shapes.IN_PATH,
    ),
    GET(f"{_EVENT_TYPE}/cursors", "read", nakadi.find_cursors, log_shapes.CURSORS, log_shapes.OF_TIME),
    POST(
        f"{_EVENT_TYPE}/cursor-distances", "view", nakadi.measure_distances, log_shapes.DISTANCES, body=log_shapes.PAIRS
    ),
    POST(f"{_EVENT_TYPE}/shifted-cursors", "read", nakadi.shift_cursors, log_shapes.CURSORS, body=log_shapes.SHIFTS),
    POST(f"{_EVENT_TYPE}/cursors-lag", "read", nakadi.measure_lag, log_shapes.PARTITIONS, body=log_shapes.PLACES),
)

_GROUP: Final = "/groups/{group}"
_MEMBER: Final = f"{_GROUP}/members/{{member}}"

_GROUPS: Final[Sequence[HttpOperation]] = (
    GET("/groups", "view", groups.list_groups, group_shapes.GROUPS, group_shapes.OF_LIST),
    *(
        each._replace(in_path=group_shapes.IN_PATH, any_text=("group", "parked", "member"))
        for each in (
            POST(
                f"{_GROUP}/positions", "read", groups.commit_positions, group_shapes.COMMITTED, body=group_shapes.COMMIT
            ),
            PATCH(
                f"{_GROUP}/positions", "own", groups.reset_positions, group_shapes.RESET, body=group_shapes.NEW_RESET
            ),
            GET(f"{_GROUP}/history", "view", groups.show_history, group_shapes.HISTORY, group_shapes.OF_HISTORY),
            GET(f"{_GROUP}/lag", "view", groups.show_lag, group_shapes.LAG),
            GET(f"{_GROUP}/parked", "view", groups.list_parked_streams, group_shapes.PARKED, group_shapes.OF_PARKED),
            POST(f"{_GROUP}/parked/retry", "own", groups.retry_parked_streams, group_shapes.RETRIED),
            POST(f"{_GROUP}/parked/{{parked}}/retry", "own", groups.retry_parked_stream, group_shapes.REQUESTED),
            POST(
                f"{_GROUP}/parked/{{parked}}/skip",
                "own",
                groups.skip_parked_stream,
                group_shapes.REQUESTED,
                body=group_shapes.REASON,
            ),
            POST(f"{_MEMBER}/release", "read", groups.release_member, group_shapes.HELD, body=group_shapes.RELEASE),
            POST(_MEMBER, "read", groups.renew_member, group_shapes.HELD, body=group_shapes.RENEWAL),
            DELETE(_MEMBER, "own", groups.remove_member, group_shapes.REMOVED),
            GET(_GROUP, "view", groups.show_group, group_shapes.GROUP),
            DELETE(_GROUP, "own", groups.forget_group, group_shapes.FORGOTTEN),
        )
    ),
)

_ADMIN: Final[Sequence[HttpOperation]] = (
    GET("/registry/enrichment-strategies", None, registry.list_enrichment_strategies, admin_shapes.STRATEGIES),
    GET("/registry/partition-strategies", None, registry.list_partition_strategies, admin_shapes.STRATEGIES),
    GET("/settings/admins", "administer", admin.show_administrators, admin_shapes.ADMINISTRATORS),
    POST(
        "/settings/admins",
        "administer",
        admin.replace_administrators,
        admin_shapes.REPLACED,
        body=admin_shapes.NEW_ADMINISTRATORS,
    ),
    GET("/settings/blacklist", "administer", admin.show_blacklist, admin_shapes.BLACKLIST),
    PUT(
        "/settings/blacklist/{type}/{name}",
        "administer",
        admin.block,
        admin_shapes.BLOCKED,
        in_path=admin_shapes.BLOCK,
        any_text=("name",),
    ),
    DELETE(
        "/settings/blacklist/{type}/{name}",
        "administer",
        admin.unblock,
        admin_shapes.UNBLOCKED,
        in_path=admin_shapes.BLOCK,
        any_text=("name",),
    ),
    GET("/settings/features", "administer", admin.show_features, admin_shapes.ALL_FEATURES),
    POST("/settings/features", "administer", admin.switch_feature, admin_shapes.SWITCHED, body=admin_shapes.SWITCH),
    GET("/settings/replicas", "administer", admin.show_replica_readers, admin_shapes.REPLICA_READERS),
    PUT(
        "/settings/replicas",
        "administer",
        admin.replace_replica_readers,
        admin_shapes.REPLICA_READERS,
        body=admin_shapes.NEW_REPLICA_READERS,
    ),
    GET("/settings/retention", "administer", admin.show_retention, admin_shapes.RETENTION),
    PUT(
        "/settings/retention",
        "administer",
        admin.replace_retention,
        admin_shapes.RETENTION,
        body=admin_shapes.NEW_RETENTION,
    ),
    GET("/storages", "administer", admin.list_storages, admin_shapes.STORAGES),
    POST("/storages", "administer", admin.add_storage, admin_shapes.NO_OTHER),
    GET("/storages/{id}", "administer", admin.show_storage, admin_shapes.STORAGE, in_path=admin_shapes.ID),
    DELETE("/storages/{id}", "administer", admin.delete_storage, admin_shapes.IN_USE, in_path=admin_shapes.ID),
    PUT("/storages/default/{id}", "administer", admin.choose_storage, admin_shapes.STORAGE, in_path=admin_shapes.ID),
    GET("/event-types/{event_type}/timelines", "administer", admin.list_timelines, admin_shapes.TIMELINES),
    POST("/event-types/{event_type}/timelines", "administer", admin.add_timeline, admin_shapes.NO_OTHER),
)

_CALLERS: Final[Sequence[HttpOperation]] = (
    GET("/caller", "view", caller.show_caller, admin_shapes.CALLER, admin_shapes.OF_CALLER),
    GET("/tokens", "administer", tokens.list_tokens, admin_shapes.TOKENS),
    POST("/tokens", "administer", tokens.create_token, admin_shapes.TOKEN_CREATED, body=admin_shapes.NEW_TOKEN),
    POST(
        "/tokens/{id}/rotation",
        "administer",
        tokens.rotate_token,
        admin_shapes.TOKEN_CREATED,
        body=admin_shapes.TOKEN_ROTATION,
        in_path=admin_shapes.ID,
    ),
    DELETE("/tokens/{id}", "administer", tokens.revoke_token, admin_shapes.TOKEN_REVOKED, in_path=admin_shapes.ID),
)

_REJECTED: Final = "/outbox/rejected"

_OUTBOX: Final[Sequence[HttpOperation]] = (
    GET("/outbox", "monitor", outbox.show_outbox, outbox_shapes.OUTBOX),
    GET(_REJECTED, "administer", outbox.list_rejected, outbox_shapes.REJECTED, outbox_shapes.OF_LIST),
    POST(f"{_REJECTED}/retry", "administer", outbox.retry_rejected, outbox_shapes.RETRIED, outbox_shapes.OF_CHANGE),
    DELETE(_REJECTED, "administer", outbox.delete_rejected, outbox_shapes.DELETED, outbox_shapes.OF_CHANGE),
)

_OPERATIONS: Final[Sequence[HttpOperation]] = (
    GET("/", None, operations.index, operator_shapes.INDEX),
    GET("/health", None, operations.health, operator_shapes.OK),
    GET("/health/live", None, operations.live, operator_shapes.STATUS),
    GET("/health/ready", None, operations.ready, operator_shapes.STATUS),
    GET("/version", None, operations.version, operator_shapes.VERSION),
    GET("/metrics", "monitor", operations.metrics, operator_shapes.METRICS),
    GET("/statistics", "view", statistics.show_statistics, operator_shapes.STATISTICS),
    GET("/openapi.json", None, operations.openapi, operator_shapes.DESCRIPTION),
    GET("/asyncapi.json", "view", asyncapi.describe, registry_shapes.ASYNCAPI, registry_shapes.OF_ASYNCAPI),
    GET("/docs", None, docs.show_docs, operator_shapes.DOCS),
    GET(
        "/docs/{path}",
        None,
        docs.show_docs_file,
        operator_shapes.DOCS_FILE,
        in_path=operator_shapes.IN_PATH,
        any_text=("path",),
    ),
    GET("/console", None, pages.show_console, operator_shapes.CONSOLE),
    GET(
        "/console/{path}",
        None,
        pages.show_console_file,
        operator_shapes.CONSOLE_FILE,
        in_path=operator_shapes.IN_PATH,
        any_text=("path",),
    ),
)

ROUTES: Final[Sequence[HttpOperation]] = tuple(
    each._replace(subject=subject)
    for subject, operations_of_it in (
        ("Feeds", _LOG),
        ("Idempotent producers", _IDEMPOTENT),
        ("Batches", _STAGED),
        ("Subscriptions", _SUBSCRIPTIONS),
        ("Event types", _REGISTRY),
        ("Nakadi's low-level interface", _LOW_LEVEL),
        ("Consumer groups", _GROUPS),
        ("Settings", _ADMIN),
        ("Callers and tokens", _CALLERS),
        ("Outbox", _OUTBOX),
        ("The hub", _OPERATIONS),
    )
    for each in operations_of_it
)
"""Every route, tried in this order, so that the busiest come first; HEAD goes with each GET."""
