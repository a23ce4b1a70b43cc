"""`penstock groups`: shows the progress of all consumers, moves their positions, and handles parked events."""
