-- Keeps others from writing to the stream's category until the transaction ends, as every write does.
SELECT {schema}.acquire_lock(%(stream)s)
