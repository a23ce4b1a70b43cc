-- Select the authorization of all event types, and who owns them.
SELECT name, nullif((definition::json -> 'authorization')::text, 'null'), owner FROM penstock_event_type
