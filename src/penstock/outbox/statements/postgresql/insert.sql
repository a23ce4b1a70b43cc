-- Inserts events of one type in the order given: an array of [data, key, headers, partition], as one JSON text, so that
-- any number of them is one statement. Declared as text first, because users give their drivers converters for json.
INSERT INTO penstock_outbox (event_type, data, key, headers, "partition")
SELECT
    CAST(:event_type AS text),
    event ->> 0,
    event ->> 1,
    event ->> 2,
    CAST(event ->> 3 AS integer)
FROM json_array_elements(CAST(CAST(:events AS text) AS json)) WITH ORDINALITY AS given (event, place)
ORDER BY place
