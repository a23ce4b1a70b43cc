-- Note that the events which the event type :id has now have no compaction keys: whatever comes next is new to compaction.
UPDATE penstock_partition AS p
SET compacted_events = 0,
    compacted_from = greatest(floor, holes_stop,
                              coalesce((SELECT max("offset") + 1 FROM penstock_event WHERE partition_id = p.id), 0))
WHERE event_type_id = :id
