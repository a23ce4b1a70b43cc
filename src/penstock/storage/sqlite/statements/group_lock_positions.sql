-- Nothing is to be locked: the transaction has the whole file already.
SELECT 1 WHERE :name IS NULL
