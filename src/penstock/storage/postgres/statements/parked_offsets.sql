-- Which events of a key wait.
SELECT "offset" FROM penstock_parked_event WHERE parked_id = %(id)s AND "offset" > %(after)s ORDER BY "offset" LIMIT %(limit)s
