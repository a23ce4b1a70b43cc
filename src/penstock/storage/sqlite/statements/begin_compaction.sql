-- Note that the events which the event type :id has now have no compaction keys: whatever comes next is new to compaction.
UPDATE penstock_partition
SET compacted_events = 0,
    compacted_from = max(floor, holes_stop, coalesce((SELECT "offset" + 1 FROM penstock_event
                                                      WHERE place >= penstock_partition.id << 40
                                                        AND place < penstock_partition.id + 1 << 40
                                                      ORDER BY place DESC LIMIT 1), 0))
WHERE event_type_id = :id
