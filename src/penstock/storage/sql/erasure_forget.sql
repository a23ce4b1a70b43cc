-- Forget the key of an erasure.
UPDATE penstock_erasure SET key = NULL WHERE id = :id
