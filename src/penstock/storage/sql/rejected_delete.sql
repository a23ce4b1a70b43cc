-- Delete rejected rows, selected like `rejected_find`.
DELETE FROM penstock_rejected
WHERE (CAST(:ids AS text) IS NULL OR id IN (SELECT CAST(value AS bigint) FROM json_each(:ids)))
  AND (CAST(:event_type AS text) IS NULL OR event_type = :event_type)
