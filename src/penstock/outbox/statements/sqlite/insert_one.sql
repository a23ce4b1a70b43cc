-- Inserts one event, or none where the event type has another fingerprint, NULL where there is no such event type: its name
-- is NULL then, which the table does not take. As VALUES, for which SQLite keeps no journal of the statement: a third of
-- what `insert` takes for one event.
INSERT OR IGNORE INTO penstock_outbox (event_type, data, key, headers, "partition")
VALUES (
    CASE
        WHEN (SELECT fingerprint FROM penstock_event_type WHERE name = :event_type) IS :fingerprint THEN :event_type
    END,
    :data,
    :key,
    :headers,
    :partition
)
