-- Inserts one event, or none if the fingerprint of the event type differs from :fingerprint; NULL stands for a missing event
-- type. In that case the name is NULL, which the table refuses. For VALUES SQLite keeps no statement journal: this takes a
-- third of the time of `insert` for one event.
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
