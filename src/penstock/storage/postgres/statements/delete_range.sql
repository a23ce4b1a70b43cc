-- Delete the events of a range; a trigger refuses those that are neither below the floor nor in a hole.
DELETE FROM penstock_event WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
