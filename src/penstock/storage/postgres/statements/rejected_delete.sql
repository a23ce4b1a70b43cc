-- Delete rejected rows, selected like `rejected_find`.
DELETE FROM penstock_rejected
WHERE (:ids::bigint[] IS NULL OR id = ANY(:ids::bigint[]))
  AND (:event_type::text IS NULL OR event_type = :event_type)
