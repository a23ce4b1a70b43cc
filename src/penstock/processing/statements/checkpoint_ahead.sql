-- The streams of a tranche that are ahead.
SELECT stream, next_index FROM {table}_ahead WHERE processor = :processor AND tranche = :tranche
