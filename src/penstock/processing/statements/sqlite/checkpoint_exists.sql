-- Whether the tables are there.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :table
