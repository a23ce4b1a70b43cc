-- Delete the rejected rows of a key.
DELETE FROM penstock_rejected WHERE event_type = :event_type AND key = :key
