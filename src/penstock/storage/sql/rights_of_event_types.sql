-- Select the authorization of all event types, and who owns them.
SELECT name, nullif(CAST(as_json(definition) -> 'authorization' AS text), 'null'), owner FROM penstock_event_type
