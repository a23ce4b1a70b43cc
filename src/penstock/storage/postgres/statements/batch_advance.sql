-- Note how far a batch is published.
UPDATE penstock_batch
SET done = %(done)s, events = %(events)s, rejected = %(rejected)s, offsets = %(offsets)s, updated_at = %(at)s
WHERE id = %(id)s
