-- Select erasures: that of :id, those of :event_type, or with :unfinished those that go on; the newest first.
SELECT id, event_type, epoch, ends, key, digest, requested_by, requested_at, finished_at,
       events, parked_keys, rejected, dead_letters
FROM penstock_erasure
WHERE (CAST(:id AS TEXT) IS NULL OR id = :id) AND (CAST(:event_type AS TEXT) IS NULL OR event_type = :event_type)
  AND (NOT CAST(:unfinished AS BOOLEAN) OR finished_at IS NULL)
ORDER BY requested_at DESC, id
LIMIT :limit
