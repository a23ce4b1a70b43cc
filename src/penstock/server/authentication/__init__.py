"""Methods of authentication, one module each."""
