-- Inserts events of one type in the order given: an array of [data, key, headers, partition], as one JSON text, so that
-- one statement inserts any number of them. Inserts none if the fingerprint of the event type differs from :fingerprint; NULL
-- stands for a missing event type. Later statements of the same publish skip this check (:continues). json_extract, because its
-- operator needs SQLite 3.38.
INSERT INTO penstock_outbox (event_type, data, key, headers, "partition")
SELECT
    :event_type,
    json_extract(value, '$[0]'),
    json_extract(value, '$[1]'),
    json_extract(value, '$[2]'),
    json_extract(value, '$[3]')
FROM json_each(:events)
WHERE :continues OR (SELECT fingerprint FROM penstock_event_type WHERE name = :event_type) IS :fingerprint
ORDER BY json_each.key
