-- Returns the fingerprint of the event type :event_type, and unless it equals :known, the definition and the partition count.
SELECT
    fingerprint,
    CASE WHEN fingerprint = CAST(:known AS text) THEN NULL ELSE definition END,
    CASE
        WHEN fingerprint = CAST(:known AS text) THEN NULL
        ELSE (SELECT count(*) FROM penstock_partition WHERE event_type_id = penstock_event_type.id)
    END
FROM penstock_event_type
WHERE name = CAST(:event_type AS text)
