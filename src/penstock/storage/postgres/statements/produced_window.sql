-- How far back the batches of an epoch of a producer are known.
SELECT count(*), min(number) FROM penstock_produced WHERE producer_id = %(producer_id)s AND epoch = %(epoch)s
