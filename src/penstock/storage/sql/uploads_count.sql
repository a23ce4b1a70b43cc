-- Count the waiting uploads of an event type, up to :limit.
SELECT count(*) FROM (SELECT 1 FROM penstock_upload
                      WHERE event_type_id = :event_type_id AND batch_id IS NULL LIMIT :limit) AS waiting
