-- Mark the parked keys :ids (a JSON array) to be sent again, or, unless :retried, as failed once more.
UPDATE penstock_parked SET is_retried = :retried, attempts = attempts + CASE WHEN :retried THEN 0 ELSE 1 END
WHERE id IN (SELECT CAST(value AS bigint) FROM json_each(:ids))
