-- Select the time: microseconds since 1970.
SELECT CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
