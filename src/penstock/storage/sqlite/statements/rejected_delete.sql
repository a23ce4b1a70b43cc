-- Delete rejected rows, selected like `rejected_find`.
DELETE FROM penstock_rejected
WHERE (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids))) AND (:event_type IS NULL OR event_type = :event_type)
