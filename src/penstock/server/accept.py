"""What clients accept, and how much they like each of it."""


def weights(accept: str | None) -> dict[str, float]:
    """Return the weight of everything that `Accept`, or `Accept-Encoding`, names, in small letters (RFC 9110, 12.4.2).

    What has a weight that is no number is left out.

    >>> weights("gzip;q=0.5, Text/HTML; level=1; Q=0, br;q=much")
    {'gzip': 0.5, 'text/html': 0.0}
    """
    found: dict[str, float] = {}
    for part in (accept or "").lower().split(","):
        name, *parameters = (each.strip() for each in part.split(";"))
        given = [each.removeprefix("q=") for each in parameters if each.startswith("q=")]
        try:
            found[name] = float(given[0]) if given else 1.0
        except ValueError:
            continue
    return {name: weight for name, weight in found.items() if name}
