-- Have a parked stream wait from an earlier index and position on.
UPDATE penstock_parked_stream SET first_index = ?, since = ? WHERE id = ?
