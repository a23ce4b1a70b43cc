"""HTTP for the clients: exchanges, transports and proxies."""
