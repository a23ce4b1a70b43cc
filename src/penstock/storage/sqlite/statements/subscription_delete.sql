-- Drop a consumer group, and a subscription with it.
DELETE FROM penstock_group WHERE name = :id
