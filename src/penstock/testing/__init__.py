"""What tests stand on: ours, and those of the services and handlers that use Penstock."""
