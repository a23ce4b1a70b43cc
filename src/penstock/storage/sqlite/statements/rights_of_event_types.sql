-- Select the authorization of all event types, and who owns them.
SELECT name, json_extract(definition, '$.authorization'), owner FROM penstock_event_type
