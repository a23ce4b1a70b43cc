-- The columns of a table; none where it is not there.
SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass(:name) AND attnum > 0 AND NOT attisdropped
