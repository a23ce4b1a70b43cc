-- Inserts events of one type in the order given: an array of [data, key, headers, partition], as one JSON text, so that
-- any number of them is one statement. json_extract, because the operator for it is younger than SQLite 3.38. Inserts
-- none of them where the event type has another fingerprint, NULL where there is no such event type, unless what was
-- inserted before was of the same publish (:goes_on).
INSERT INTO penstock_outbox (event_type, data, key, headers, "partition")
SELECT
    :event_type,
    json_extract(value, '$[0]'),
    json_extract(value, '$[1]'),
    json_extract(value, '$[2]'),
    json_extract(value, '$[3]')
FROM json_each(:events)
WHERE :goes_on OR (SELECT fingerprint FROM penstock_event_type WHERE name = :event_type) IS :fingerprint
ORDER BY json_each.key
