-- Give the event type :event_type_id the partitions :numbers (a JSON array), with ids in their order.
INSERT INTO penstock_partition (event_type_id, number)
SELECT :event_type_id, CAST(value AS integer) FROM json_each(:numbers) ORDER BY CAST(value AS integer)
