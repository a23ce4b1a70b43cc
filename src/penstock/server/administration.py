"""The routing table of administration: settings, storages and timelines, strategies, consumer groups."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from penstock.server import administration_shapes as shapes
from penstock.server import group_shapes, groups, settings, storages, strategies
from penstock.server.operation import Operation

GET, POST, PUT, DELETE = (partial(Operation, method) for method in ("GET", "POST", "PUT", "DELETE"))
GROUP_GET, GROUP_POST, GROUP_PATCH, GROUP_DELETE = (
    partial(Operation, method, in_path=group_shapes.IN_PATH, any_text=True)
    for method in ("GET", "POST", "PATCH", "DELETE")
)

ADMINISTRATION: Final[Sequence[Operation]] = (
    GET("/groups", groups.list_groups, group_shapes.GROUPS, group_shapes.OF_LIST),
    GROUP_POST("/groups/{group}/positions", groups.commit_positions, group_shapes.COMMITTED, body=group_shapes.COMMIT),
    GROUP_PATCH("/groups/{group}/positions", groups.reset_positions, group_shapes.RESET, body=group_shapes.NEW_RESET),
    GROUP_GET("/groups/{group}/history", groups.show_history, group_shapes.HISTORY, group_shapes.OF_HISTORY),
    GROUP_GET("/groups/{group}", groups.show_group, group_shapes.GROUP),
    GROUP_DELETE("/groups/{group}", groups.forget_group, group_shapes.FORGOTTEN),
    GET("/registry/enrichment-strategies", strategies.list_enrichment_strategies, shapes.STRATEGIES),
    GET("/registry/partition-strategies", strategies.list_partition_strategies, shapes.STRATEGIES),
    GET("/settings/admins", settings.show_administrators, shapes.ADMINISTRATORS),
    POST("/settings/admins", settings.replace_administrators, shapes.REPLACED, body=shapes.NEW_ADMINISTRATORS),
    GET("/settings/blacklist", settings.show_blacklist, shapes.BLACKLIST),
    PUT("/settings/blacklist/{type}/{name}", settings.block, shapes.BLOCKED, in_path=shapes.BLOCK),
    DELETE("/settings/blacklist/{type}/{name}", settings.unblock, shapes.UNBLOCKED, in_path=shapes.BLOCK),
    GET("/settings/features", settings.show_features, shapes.ALL_FEATURES),
    POST("/settings/features", settings.switch_feature, shapes.SWITCHED, body=shapes.SWITCH),
    GET("/storages", storages.list_storages, shapes.STORAGES),
    POST("/storages", storages.add_storage, shapes.NO_OTHER),
    GET("/storages/{id}", storages.show_storage, shapes.STORAGE, in_path=shapes.ID),
    DELETE("/storages/{id}", storages.delete_storage, shapes.IN_USE, in_path=shapes.ID),
    PUT("/storages/default/{id}", storages.choose_storage, shapes.STORAGE, in_path=shapes.ID),
    GET("/event-types/{event_type}/timelines", storages.list_timelines, shapes.TIMELINES),
    POST("/event-types/{event_type}/timelines", storages.add_timeline, shapes.NO_OTHER),
)
