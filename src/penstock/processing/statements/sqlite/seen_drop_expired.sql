-- Forgets those of the ids, a list in JSON, that were seen before a time.
DELETE FROM {table}
WHERE consumer = :consumer AND eid IN (SELECT value FROM json_each(:eids)) AND feed = :feed AND seen_at < :since
