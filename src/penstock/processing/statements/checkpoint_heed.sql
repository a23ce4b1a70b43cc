-- Nothing is wanted any more of what waits behind what was tried in vain.
UPDATE {table}_parked SET request = NULL WHERE processor = :processor AND digest = :digest AND tranche = :tranche
