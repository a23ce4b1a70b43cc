"""The rules of consumer groups: positions and lag, names, leases, parked streams."""
