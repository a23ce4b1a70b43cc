-- The fingerprint of the event type :event_type; its definition and how many partitions it has, unless its fingerprint is
-- :known. As bytes, because users give their connections text factories.
SELECT
    fingerprint,
    CASE WHEN fingerprint = :known THEN NULL ELSE CAST(definition AS BLOB) END,
    CASE
        WHEN fingerprint = :known THEN NULL
        ELSE (SELECT count(*) FROM penstock_partition WHERE event_type_id = penstock_event_type.id)
    END
FROM penstock_event_type
WHERE name = :event_type
