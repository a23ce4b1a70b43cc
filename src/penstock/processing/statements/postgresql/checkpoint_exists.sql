-- Whether the tables are there.
SELECT 1 WHERE to_regclass(:table) IS NOT NULL
