-- Select the uploads :names (a JSON array) of a batch that has not begun.
SELECT name, id FROM penstock_upload
WHERE name IN (SELECT value FROM json_each(:names))
  AND event_type_id = :event_type_id AND "group" = :group AND number = :number
  AND query = :query AND batch_id IS NULL
ORDER BY id FOR UPDATE
