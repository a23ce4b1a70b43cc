-- The feed :name, or all of them where that is NULL, with the store's numbers of their partitions in order.
SELECT t.id, t.epoch, t.revision, t.definition, t.created_at, t.updated_at,
       (SELECT json_agg(p.id ORDER BY p.number)::text FROM penstock_partition AS p WHERE p.event_type_id = t.id)
FROM penstock_event_type AS t
WHERE :name::text IS NULL OR t.name = :name
ORDER BY t.name COLLATE "C"
