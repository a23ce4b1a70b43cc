-- No stream of a tranche is ahead: its position is where somebody has put it.
DELETE FROM {table}_ahead WHERE processor = :processor AND tranche = :tranche
