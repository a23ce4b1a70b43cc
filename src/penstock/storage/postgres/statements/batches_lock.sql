-- Lock the batches :wanted, in their order.
SELECT id FROM penstock_batch WHERE id = ANY(:wanted) ORDER BY id FOR UPDATE
