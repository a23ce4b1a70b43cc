-- Say what is wanted of a parked stream; nothing comes back where it is not parked.
UPDATE {table}_parked SET request = :request WHERE processor = :processor AND digest = :digest RETURNING stream
