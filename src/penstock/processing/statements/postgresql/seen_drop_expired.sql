-- Forgets those of the ids, a list in JSON, that were seen before a time. Sorted, so that two transactions that forget the
-- same do not wait for each other. FOR UPDATE within has each looked up by itself, and ctid leads to what it has found: by
-- its id, a planner that knows nothing of the table yet would rather read all that the consumer has seen.
DELETE FROM {table}
WHERE seen_at < CAST(:since AS bigint) AND ctid = ANY (ARRAY(
    SELECT kept.ctid
    FROM (
        SELECT eid
        FROM json_array_elements_text(CAST(CAST(:eids AS text) AS json)) AS listed (eid)
        ORDER BY eid COLLATE "C"
    ) AS asked
    CROSS JOIN LATERAL (
        SELECT ctid FROM {table}
        WHERE consumer = CAST(:consumer AS text) AND eid = asked.eid AND feed = CAST(:feed AS text)
            AND seen_at < CAST(:since AS bigint)
        FOR UPDATE
    ) AS kept
))
