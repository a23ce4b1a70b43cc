-- The streams that a hub is to be sending.
SELECT subscription, id FROM penstock_session WHERE hub_id = %(hub_id)s AND holds_until IS NULL
