-- Record the progress of a batch.
UPDATE penstock_batch
SET done = :done, events = :events, rejected = :rejected, offsets = :offsets, updated_at = :at
WHERE id = :id
