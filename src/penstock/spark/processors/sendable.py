"""What is sent to executors: it is looked at before anything runs, where it can still be said what of it is wrong."""

from typing import Any

from pyspark import cloudpickle

from penstock.errors import BadParameter


def check_sendable(parameter: str, value: Any) -> None:
    """Raise BadParameter unless *value* can be sent to executors as Spark sends functions; says what cannot be."""
    try:
        cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        allowed = (
            f"what Spark can send to executors, which has failed: {reason}. Have locks, connections, sessions and open "
            "files be made in the function that is called, or when it is called first"
        )
        name = getattr(value, "__qualname__", type(value).__qualname__)
        raise BadParameter(parameter=parameter, value=name, allowed=allowed) from error
