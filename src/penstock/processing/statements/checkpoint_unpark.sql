-- A stream is parked no more.
DELETE FROM {table}_parked WHERE processor = :processor AND digest = :digest AND tranche = :tranche
