"""Consumer groups: their positions, members and parked streams."""
