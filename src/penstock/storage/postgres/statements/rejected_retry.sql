-- Move rejected rows, chosen like `rejected_find`, back into the outbox in the order of their ids. The outbox gives each
-- a new id and the number of this transaction, so that the next look of every hub finds them.
WITH back AS (
    DELETE FROM penstock_rejected
    WHERE (CAST(:ids AS text) IS NULL OR id IN (SELECT CAST(value AS bigint) FROM json_each(:ids)))
      AND (CAST(:event_type AS text) IS NULL OR event_type = :event_type)
    RETURNING id, event_type, data, key, headers, "partition", created_at)
INSERT INTO penstock_outbox (event_type, data, key, headers, "partition", created_at)
SELECT event_type, data, key, headers, "partition", created_at FROM back ORDER BY id
