"""The forms of request bodies that no route takes."""

from starlette.requests import Request

from penstock.errors import UnsupportedMediaType

AVRO = "application/avro-binary"
_CLOUD_EVENTS = "application/cloudevents"
_LINES = '{"data": {...}, "headers": {"ce_id": ..., "ce_type": ...}}'


def refuse_foreign_body(request: Request) -> None:
    """Raise UnsupportedMediaType where *request* announces events as Avro or as CloudEvents.

    A CloudEvent in structured mode has a media type of its own, one in binary mode has its attributes in headers
    (CloudEvents' HTTP protocol binding, 3.1 and 3.2).
    """
    media_type = media_type_of(request)
    if media_type == AVRO:
        raise UnsupportedMediaType(given="Avro", allowed="application/json")
    if media_type.startswith(_CLOUD_EVENTS) or "ce-specversion" in request.headers:
        raise UnsupportedMediaType(given="a CloudEvent", allowed=f"feed lines to POST /feeds, such as {_LINES}")


def media_type_of(request: Request) -> str:
    """Return the media type that *request* announces, in small letters; "" for none."""
    return request.headers.get("content-type", "").split(";")[0].strip().lower()
