-- Give the event type %(event_type_id)s the partitions %(first)s to %(count)s - 1.
INSERT INTO penstock_partition (event_type_id, number)
SELECT %(event_type_id)s, number FROM generate_series(%(first)s, %(count)s - 1) AS number ORDER BY number
