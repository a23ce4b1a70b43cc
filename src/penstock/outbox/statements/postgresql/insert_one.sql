-- Inserts one event, or none where the event type has another fingerprint, NULL where there is no such event type. Returns a
-- row if it was inserted. A fifth of what `insert` takes the database for one event.
INSERT INTO penstock_outbox (event_type, data, key, headers, "partition")
SELECT
    CAST(:event_type AS text),
    CAST(:data AS text),
    CAST(:key AS text),
    CAST(:headers AS text),
    CAST(:partition AS integer)
WHERE (SELECT fingerprint FROM penstock_event_type WHERE name = CAST(:event_type AS text))
      IS NOT DISTINCT FROM CAST(:fingerprint AS text)
RETURNING 1
