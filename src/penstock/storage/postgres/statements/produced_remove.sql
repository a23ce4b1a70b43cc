-- Forget a batch.
DELETE FROM penstock_produced WHERE producer_id = %s AND epoch = %s AND number = %s
