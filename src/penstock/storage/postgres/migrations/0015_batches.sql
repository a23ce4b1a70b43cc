-- Batches are made of uploads, and of nothing else: a batch that its tasks publish themselves is gone. One of those that was not
-- complete is forgotten; its events stay. Stop the hubs of the version before first: they still ask for the columns.
DELETE FROM penstock_batch WHERE epoch IS NOT NULL AND done < chunks;
ALTER TABLE penstock_batch DROP COLUMN partitions, DROP COLUMN epoch;
