-- Add what a transaction has erased to the counts of an erasure.
UPDATE penstock_erasure
SET events = events + :events, parked_keys = parked_keys + :parked_keys, rejected = rejected + :rejected,
    dead_letters = dead_letters + :dead_letters
WHERE id = :id
