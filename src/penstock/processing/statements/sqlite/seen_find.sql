-- Returns which of the ids, a list in JSON, the consumer has seen in any feed at a time or later.
SELECT DISTINCT seen.eid
FROM json_each(:eids) AS asked CROSS JOIN {table} AS seen
    ON seen.consumer = :consumer AND seen.eid = asked.value AND seen.seen_at >= :since
