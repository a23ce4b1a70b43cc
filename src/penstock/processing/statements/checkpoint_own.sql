-- Take a position over: whoever had it moves it no more.
UPDATE {table} SET owner = :owner WHERE processor = :processor AND tranche = :tranche
