"""`penstock groups`: how far all consumers are, whoever keeps their positions; moves them, handles parked events."""
