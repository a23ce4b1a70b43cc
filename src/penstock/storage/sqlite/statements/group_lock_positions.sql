-- Lock nothing: a write transaction has locked the whole file.
SELECT 1 WHERE :name IS NULL
