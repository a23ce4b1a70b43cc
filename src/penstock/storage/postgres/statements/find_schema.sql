-- One version of an event type's schema.
SELECT definition FROM penstock_schema WHERE event_type_id = %(event_type_id)s AND version = %(version)s
