-- Delete the uploads of a batch whose chunks are all published.
DELETE FROM penstock_upload WHERE batch_id = :batch_id
