"""Predicates on errors, for `pytest.raises(..., check=...)`."""

from collections.abc import Callable

from penstock.errors import PenstockError


def has_code(code: str) -> Callable[[BaseException | None], bool]:
    """Return a predicate: whether an exception is an error of Penstock with this *code*."""
    return lambda error: isinstance(error, PenstockError) and error.code == code
