"""`penstock checkpoint`: how far processors are; moves them, and helps them with streams that are parked."""
