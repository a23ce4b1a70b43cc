"""Storage for the files of a cold tier: a directory, or a bucket of an object store with the S3 protocol.

Invariants:
    A file appears whole, or not at all, and is never changed.
    A file is durable when `write` returns.
"""

import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import pyarrow as pa
import pyarrow.fs as pafs

from penstock.errors import BadParameter, ColdTierUnavailable

ALLOWED: Final = (
    "file:///DIRECTORY or s3://BUCKET/PREFIX, with ?endpoint=URL&region=NAME for other servers than Amazon's"
)
MARK: Final = "penstock-cold-tier.json"
"""The file at the root that says whose cold tier it is."""
CONNECT_SECONDS: Final = 3.0
REQUEST_SECONDS: Final = 10.0
ATTEMPTS: Final = 2
"""S3's time limits and attempts: readers and the sealing of events are told soon that it is away."""
_PART: Final = ".part"
"""The suffix of a file that is being written; its name begins with a dot, which readers of directories pass over."""


class Mark(msgspec.Struct, frozen=True):
    """The content of the file `MARK`."""

    id: str
    layout: int = 1


class StoredObject(NamedTuple):
    """A file of a cold tier."""

    path: str
    size: int


class ColdStorage(Protocol):
    """Files by path, relative to the root of a cold tier. Every method may raise ColdTierUnavailable."""

    url: str
    """URL of the root, without credentials."""

    def write(self, path: str, body: bytes) -> None:
        """Write a file; it is durable and whole when this returns."""

    def open(self, path: str) -> pa.NativeFile:
        """Open a file for reading at any place.

        Raises:
            FileNotFoundError: there is none.
        """

    def remove(self, path: str) -> None:
        """Remove a file, if there is one."""

    def list(self, folder: str = "") -> Iterator[StoredObject]:
        """Yield all files below a folder, in any order."""

    def locate(self, folder: str) -> tuple[str, dict[str, str]]:
        """Return where a folder is, and the options of the storage, as delta-rs takes them."""


def read_mark(storage: ColdStorage) -> str | None:
    """Return the id of the cold tier that lies at a storage; None if there is none."""
    try:
        source = storage.open(MARK)
    except FileNotFoundError:
        return None
    return msgspec.json.decode(source.read(), type=Mark).id


def open_storage(url: str) -> ColdStorage:
    """Return the storage at *url*; nothing is connected yet.

    `file:///var/lib/penstock/cold` is a directory. If there is none it is made when the first file is written, for the
    user of the process alone. `s3://BUCKET/PREFIX` is a bucket, with `?endpoint=https://HOST:PORT` for another server
    than Amazon's, and `&region=NAME`. Credentials come from where Amazon's tools have them (environment, profile,
    instance), or from the URL: `s3://KEY:SECRET@BUCKET/PREFIX`, where `/` is written `%2F`.

    Raises:
        BadParameter: *url* is no such URL, or names a file as a directory.
    """
    parts = urlsplit(url)
    if parts.scheme == "file" and not parts.netloc and parts.path not in ("", "/") and not parts.query:
        directory = Path(unquote(parts.path))
        if directory.exists() and not directory.is_dir():
            raise BadParameter(parameter="cold", value=url, allowed="the URL of a directory, which this file is not")
        return DirectoryStorage(directory)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    has_secret = "@" in f"{parts.path}{options.get('endpoint', '')}" or ":" in parts.netloc.rpartition("@")[2]
    if parts.scheme == "s3" and parts.hostname and options.keys() <= {"endpoint", "region"} and not has_secret:
        return BucketStorage(
            parts.hostname, parts.path.strip("/"), _s3_options(parts, options), options.get("endpoint")
        )
    raise BadParameter(parameter="cold", value=_without_credentials(url), allowed=ALLOWED)


class DirectoryStorage:
    """A directory. Its disk has the files when `write` returns, and their names."""

    def __init__(self, root: Path) -> None:
        self.url = root.absolute().as_uri()
        self._root = root

    def write(self, path: str, body: bytes) -> None:
        """See `ColdStorage.write`."""
        target = self._root / path
        part = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_PART}")
        with _explain_errors(self.url, writes=True):
            self._make_folder(target.parent)
            try:
                with part.open("wb") as file:
                    file.write(body)
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(target)
            except BaseException:
                with suppress(OSError):
                    part.unlink()
                raise
            _sync(target.parent)

    def open(self, path: str) -> pa.NativeFile:
        """See `ColdStorage.open`."""
        with _explain_errors(self.url):
            return pa.OSFile(str(self._root / path))  # Not mapped: if it were cut off meanwhile, the process would die.

    def remove(self, path: str) -> None:
        """See `ColdStorage.remove`; what a killed process has written of the file goes too."""
        with _explain_errors(self.url):
            target = self._root / path
            for each in (target, *target.parent.glob(f".{target.name}.*{_PART}")):
                each.unlink(missing_ok=True)

    def list(self, folder: str = "") -> Iterator[StoredObject]:
        """See `ColdStorage.list`."""
        with _explain_errors(self.url):
            for each in sorted((self._root / folder).rglob("*")):
                if each.is_file():
                    yield StoredObject(each.relative_to(self._root).as_posix(), each.stat().st_size)

    def locate(self, folder: str) -> tuple[str, dict[str, str]]:
        """See `ColdStorage.locate`."""
        return str(self._root / folder), {}

    def _make_folder(self, folder: Path) -> None:
        missing = []
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for each in reversed(missing):
            with suppress(FileExistsError):
                each.mkdir(mode=0o777 if self._root in each.parents else 0o700)
            _sync(each.parent)


class BucketStorage:
    """A bucket of an object store that speaks S3."""

    def __init__(self, bucket: str, prefix: str, options: dict[str, Any], endpoint: str | None) -> None:
        self.url = f"s3://{'/'.join(part for part in (bucket, prefix) if part)}"
        if endpoint is not None:
            self.url += f"?endpoint={endpoint}"
        self._root = f"{bucket}/{prefix}" if prefix else bucket
        self._options = options
        self._opening = threading.Lock()
        self._opened: pafs.FileSystem | None = None

    @property
    def _files(self) -> pafs.FileSystem:
        with self._opening:
            if self._opened is None:
                retries = pafs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS)
                self._opened = pafs.S3FileSystem(
                    connect_timeout=CONNECT_SECONDS,
                    request_timeout=REQUEST_SECONDS,
                    retry_strategy=retries,
                    **self._options,
                )
            return self._opened

    def write(self, path: str, body: bytes) -> None:
        """See `ColdStorage.write`."""
        with _explain_errors(self.url, writes=True), self._files.open_output_stream(f"{self._root}/{path}") as stream:
            stream.write(body)

    def open(self, path: str) -> pa.NativeFile:
        """See `ColdStorage.open`."""
        with _explain_errors(self.url):
            return self._files.open_input_file(f"{self._root}/{path}")

    def remove(self, path: str) -> None:
        """See `ColdStorage.remove`."""
        with _explain_errors(self.url), suppress(FileNotFoundError):
            self._files.delete_file(f"{self._root}/{path}")

    def list(self, folder: str = "") -> Iterator[StoredObject]:
        """See `ColdStorage.list`."""
        start = f"{self._root}/{folder}" if folder else self._root
        with _explain_errors(self.url):
            for each in self._files.get_file_info(pafs.FileSelector(start, allow_not_found=True, recursive=True)):
                if each.is_file:
                    yield StoredObject(each.path.removeprefix(f"{self._root}/"), each.size)

    def locate(self, folder: str) -> tuple[str, dict[str, str]]:
        """See `ColdStorage.locate`."""
        found = {
            "aws_region": self._files.region,
            "connect_timeout": f"{CONNECT_SECONDS:g}s",
            "timeout": f"{REQUEST_SECONDS:g}s",
            "retry_timeout": f"{REQUEST_SECONDS:g}s",
            "max_retries": f"{ATTEMPTS - 1}",
        }
        if "endpoint_override" in self._options:
            scheme = self._options["scheme"]
            found["aws_endpoint_url"] = f"{scheme}://{self._options['endpoint_override']}"
            found["allow_http"] = str(scheme == "http").lower()
        if "access_key" in self._options:
            found |= {
                "aws_access_key_id": self._options["access_key"],
                "aws_secret_access_key": self._options["secret_key"],
            }
        return f"s3://{self._root}/{folder}", found


def _s3_options(parts: Any, options: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "region" in options:
        found["region"] = options["region"]
    if "endpoint" in options:
        scheme, _, host = options["endpoint"].rpartition("://")
        if scheme not in ("", "http", "https") or not host:
            allowed = "http://HOST:PORT or https://HOST"
            raise BadParameter(parameter="cold endpoint", value=options["endpoint"][:80], allowed=allowed)
        found |= {"endpoint_override": host.rstrip("/"), "scheme": scheme or "https"}
        found.setdefault("region", "us-east-1")  # Pyarrow would ask Amazon for it.
    if parts.username is not None:
        if not parts.password:
            raise BadParameter(parameter="cold", value=_without_credentials(parts.geturl()), allowed=ALLOWED)
        found |= {"access_key": unquote(parts.username), "secret_key": unquote(parts.password)}
    return found


def _without_credentials(url: str) -> str:
    scheme, found, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if found else url.rpartition("@")[2]


def _sync(folder: Path) -> None:
    """Have the names of a folder written to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _explain_errors(url: str, *, writes: bool = False) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, FileNotFoundError) and not writes:
            raise
        reason = " ".join(str(error).split())[:300]
        raise ColdTierUnavailable(location=url, reason=reason or type(error).__name__, retry_after=5) from error
