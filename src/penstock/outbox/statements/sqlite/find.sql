-- Returns the fingerprint of the event type :event_type, and unless it equals :known, the definition and the partition count.
-- The definition is returned as bytes, because services set text factories on their connections.
SELECT
    fingerprint,
    CASE WHEN fingerprint = :known THEN NULL ELSE CAST(definition AS BLOB) END,
    CASE
        WHEN fingerprint = :known THEN NULL
        ELSE (SELECT count(*) FROM penstock_partition WHERE event_type_id = penstock_event_type.id)
    END
FROM penstock_event_type
WHERE name = :event_type
