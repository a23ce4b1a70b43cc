-- Lock the batches %(wanted)s, in their order.
SELECT id FROM penstock_batch WHERE id = ANY(%(wanted)s) ORDER BY id FOR UPDATE
