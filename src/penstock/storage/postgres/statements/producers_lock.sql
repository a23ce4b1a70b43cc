-- Lock event types (shared), then the producers :wanted, each kind in its order.
SELECT id FROM penstock_event_type
WHERE id IN (SELECT event_type_id FROM penstock_partition WHERE id = ANY(:ids))
ORDER BY id FOR SHARE;
SELECT r.id
FROM (SELECT (value ->> 0)::integer AS partition_id, value ->> 1 AS name
      FROM json_array_elements(:wanted::json) AS value) AS w
JOIN penstock_producer AS r ON r.partition_id = w.partition_id AND r.name = w.name
ORDER BY r.partition_id, r.name FOR UPDATE OF r
