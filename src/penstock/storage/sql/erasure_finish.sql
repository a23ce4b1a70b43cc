-- Finish an erasure.
UPDATE penstock_erasure SET finished_at = :at WHERE id = :id AND finished_at IS NULL
