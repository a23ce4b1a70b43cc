-- Forget the events of a key that were committed.
DELETE FROM penstock_parked_event WHERE parked_id = :id AND "offset" <= :last
