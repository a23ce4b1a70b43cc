-- Forget a batch.
DELETE FROM penstock_produced WHERE producer_id = ? AND epoch = ? AND number = ?
