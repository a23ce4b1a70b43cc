"""What Penstock is measured beside."""
