-- Returns which of the ids, a list in JSON, the consumer has seen in any feed at a time or later. OFFSET has each looked up
-- by itself.
SELECT asked.eid
FROM json_array_elements_text(CAST(CAST(:eids AS text) AS json)) AS asked (eid)
CROSS JOIN LATERAL (
    SELECT EXISTS (
        SELECT FROM {table} AS seen
        WHERE seen.consumer = CAST(:consumer AS text) AND seen.eid = asked.eid AND seen.seen_at >= CAST(:since AS bigint)
    ) AS is_known
    OFFSET 0
) AS found
WHERE found.is_known
