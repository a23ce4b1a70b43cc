-- How many streams processors have parked, by tranche.
SELECT processor, tranche, count(*) FROM {table}_parked GROUP BY processor, tranche
