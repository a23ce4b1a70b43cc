-- Record a request to erase the events of a key.
INSERT INTO penstock_erasure (id, event_type, epoch, ends, key, digest, requested_by, requested_at)
VALUES (:id, :event_type, :epoch, :ends, :key, :digest, :requested_by, :requested_at)
