-- Inserts one event, or none if the fingerprint of the event type differs from :fingerprint; NULL stands for a missing event
-- type. Returns a row if it was inserted. This takes the database a fifth of the time of `insert` for one event.
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
