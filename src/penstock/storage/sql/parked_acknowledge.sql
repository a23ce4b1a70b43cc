-- Delete the parked events of a key up to an offset.
DELETE FROM penstock_parked_event WHERE parked_id = ? AND "offset" <= ?
