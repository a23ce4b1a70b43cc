-- Forget the uploads of a batch, all of whose chunks are published.
DELETE FROM penstock_upload WHERE batch_id = :batch_id
