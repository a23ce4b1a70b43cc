"""SQL statements that both databases share, one a file; see `penstock.storage.statements`."""
