"""Certificate authorities that clients trust: those of the system, or those that the environment names."""

import os
import ssl
from typing import Final

from penstock.errors import BadParameter

_ALLOWED: Final = {
    "SSL_CERT_FILE": "a file with certificates in PEM",
    "SSL_CERT_DIR": "a folder with certificates, named as `openssl rehash` does",
}


def trust_environment() -> ssl.SSLContext | None:
    """Return TLS settings that trust the authorities in SSL_CERT_FILE, else SSL_CERT_DIR; None if neither is set.

    Raises:
        BadParameter: The variable names something else; the error names it.
    """
    places = {variable: os.environ.get(variable) for variable in _ALLOWED}
    variable = next((name for name, place in places.items() if place), None)
    if variable is None:
        return None
    try:
        if variable == "SSL_CERT_FILE":
            return ssl.create_default_context(cafile=places[variable])
        return ssl.create_default_context(capath=places[variable])
    except OSError as error:  # An SSLError is one.
        reason = str(error) if isinstance(error, ssl.SSLError) else error.strerror
        allowed = f"{_ALLOWED[variable]}: {reason}"
        raise BadParameter(parameter=variable, value=places[variable], allowed=allowed) from error
