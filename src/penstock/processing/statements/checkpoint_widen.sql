-- A parked stream waits from an earlier position on, with all that it has there.
UPDATE {table}_parked SET first_index = :first, since = :since
WHERE processor = :processor AND tranche = :tranche AND digest = :digest
