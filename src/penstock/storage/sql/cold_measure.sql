-- Select up to :limit event types with events in files, those with the largest files first: name, number and bytes of files,
-- and how many such event types there are.
SELECT t.name, count(*), CAST(sum(f.file_bytes) AS bigint) AS bytes, count(*) OVER ()
FROM penstock_cold_file AS f
JOIN penstock_partition AS p ON p.id = f.partition_id
JOIN penstock_event_type AS t ON t.id = p.event_type_id
WHERE f.state = 'sealed'
GROUP BY t.name
ORDER BY bytes DESC, t.name
LIMIT :limit
