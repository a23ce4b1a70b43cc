-- Delete a parked stream of which all events were erased.
DELETE FROM penstock_parked_stream WHERE id = :id
