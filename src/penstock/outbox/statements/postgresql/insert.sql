-- Inserts events of one type in the order given: an array of [data, key, headers, partition], as one JSON text, so that
-- one statement inserts any number of them. Cast from text, because services register converters for json. Inserts none if
-- the fingerprint of the event type differs from :fingerprint; NULL stands for a missing event type. Later statements of the
-- same publish skip this check (:continues). Returns the number of inserted events.
WITH inserted AS (
    INSERT INTO penstock_outbox (event_type, data, key, headers, "partition")
    SELECT
        CAST(:event_type AS text),
        event ->> 0,
        event ->> 1,
        event ->> 2,
        CAST(event ->> 3 AS integer)
    FROM json_array_elements(CAST(CAST(:events AS text) AS json)) WITH ORDINALITY AS given (event, place)
    WHERE CAST(:continues AS boolean)
       OR (SELECT fingerprint FROM penstock_event_type WHERE name = CAST(:event_type AS text))
          IS NOT DISTINCT FROM CAST(:fingerprint AS text)
    ORDER BY place
    RETURNING 1
)
SELECT count(*) FROM inserted
