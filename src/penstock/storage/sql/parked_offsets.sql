-- Select the offsets of the parked events of a key.
SELECT "offset" FROM penstock_parked_event WHERE parked_id = :id AND "offset" > :after ORDER BY "offset" LIMIT :limit
