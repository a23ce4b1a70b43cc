-- Lock the event types of the partitions :ids (shared), in their order.
SELECT id FROM penstock_event_type
WHERE id IN (SELECT event_type_id FROM penstock_partition WHERE id = ANY(:ids))
ORDER BY id FOR SHARE
