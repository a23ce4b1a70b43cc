-- Forget why a stream is parked, and say what is wanted of it now.
UPDATE penstock_parked_stream SET tag = 'erased', detail = '', request = coalesce(:request, request) WHERE id = :id
