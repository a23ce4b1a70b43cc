-- Delete a stored batch of a producer.
DELETE FROM penstock_produced WHERE producer_id = ? AND epoch = ? AND number = ?
