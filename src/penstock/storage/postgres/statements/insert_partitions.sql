-- Give the event type :event_type_id the partitions :numbers (a JSON array), with ids in their order.
INSERT INTO penstock_partition (event_type_id, number)
SELECT :event_type_id, value::integer FROM json_array_elements_text(:numbers::json) AS value ORDER BY value::integer
