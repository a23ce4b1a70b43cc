-- Forget what is wanted of a parked stream.
UPDATE penstock_parked_stream SET request = NULL WHERE "group" = ? AND source = ? AND tranche = ? AND digest = ?
