-- Inserts events of one type in the order given: an array of [data, key, headers, partition], as one JSON text, so that
-- any number of them is one statement. Declared as text first, because users give their drivers converters for json.
-- Inserts none of them where the event type has another fingerprint, NULL where there is no such event type, unless what
-- was inserted before was of the same publish (:goes_on). Returns how many were inserted.
WITH inserted AS (
    INSERT INTO penstock_outbox (event_type, data, key, headers, "partition")
    SELECT
        CAST(:event_type AS text),
        event ->> 0,
        event ->> 1,
        event ->> 2,
        CAST(event ->> 3 AS integer)
    FROM json_array_elements(CAST(CAST(:events AS text) AS json)) WITH ORDINALITY AS given (event, place)
    WHERE CAST(:goes_on AS boolean)
       OR (SELECT fingerprint FROM penstock_event_type WHERE name = CAST(:event_type AS text))
          IS NOT DISTINCT FROM CAST(:fingerprint AS text)
    ORDER BY place
    RETURNING 1
)
SELECT count(*) FROM inserted
