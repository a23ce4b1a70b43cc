-- Forget a parked stream of a group.
DELETE FROM penstock_parked_stream WHERE "group" = ? AND source = ? AND tranche = ? AND digest = ?
