-- The feed :name, or all of them where :name is NULL, with the store's numbers of their partitions in order.
SELECT t.id, t.epoch, t.revision, t.definition, t.created_at, t.updated_at,
       (SELECT json_group_array(id) FROM (SELECT id FROM penstock_partition WHERE event_type_id = t.id ORDER BY number))
FROM penstock_event_type AS t
WHERE :name IS NULL OR t.name = :name
ORDER BY t.name
