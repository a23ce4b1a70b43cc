-- Return a row if a caller has a token, has published lately, or owns an event type or a group.
SELECT 1 WHERE EXISTS (SELECT 1 FROM penstock_token WHERE data_type = :data_type AND application = :name)
    OR EXISTS (SELECT 1 FROM penstock_publisher WHERE caller = :caller)
    OR EXISTS (SELECT 1 FROM penstock_event_type WHERE owner = :caller)
    OR EXISTS (SELECT 1 FROM penstock_group WHERE owner = :caller)
