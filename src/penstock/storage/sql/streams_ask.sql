-- Say what is wanted of a parked stream, in all tranches; of all streams of the group if no :digest is given.
UPDATE penstock_parked_stream SET request = :request
WHERE "group" = :group AND (CAST(:digest AS TEXT) IS NULL OR digest = :digest)
