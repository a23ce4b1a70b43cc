-- Give the event type :event_type_id the partitions :numbers (a JSON array).
INSERT INTO penstock_partition (event_type_id, number)
SELECT :event_type_id, value FROM json_each(:numbers)
