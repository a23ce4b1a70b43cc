-- Begin a write transaction, look at the outbox and lock the heads of the partitions :ids, in one exchange.
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT * FROM penstock_begin_append(:xmax::text, :running::text[], :ids::integer[])
