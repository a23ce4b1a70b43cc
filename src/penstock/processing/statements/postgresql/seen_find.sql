-- Returns which of the ids, a list in JSON, the consumer has seen in any feed.
SELECT DISTINCT seen.eid
FROM json_array_elements_text(CAST(CAST(:eids AS text) AS json)) AS asked (eid)
JOIN {table} AS seen ON seen.consumer = CAST(:consumer AS text) AND seen.eid = asked.eid
