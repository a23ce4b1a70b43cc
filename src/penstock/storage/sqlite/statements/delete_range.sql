-- Delete the events of a range; a trigger refuses those that are neither below the floor nor in a hole.
DELETE FROM penstock_event
WHERE place >= (:partition_id << 40) + :start AND place < (:partition_id << 40) + :stop
