-- The columns of a table; none where it is not there.
SELECT name FROM pragma_table_info(:name)
