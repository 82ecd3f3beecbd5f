"""A file from the network: fetched in pieces that outlive an interrupt, verified, and then there as a whole."""

import hashlib
import os
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from time import sleep
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from adaam._version import __version__
from adaam.files import lock

BLOCK_BYTES = 1 << 16
MAX_BYTES = 1 << 30  # the largest of the sets, MNIST as text, has about an eighth of it
TIMEOUT_S = 30.0  # for a connection, and for each piece to come
WAITS_S = (1.0, 2.0, 4.0)  # before each new attempt; one that brings bytes starts the count anew
LONGEST_WAIT_S = 60.0
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})

Tell = Callable[[int, int | None], None]  # bytes that are there, and bytes in all where the server says so
Say = Callable[[str], None]
T = TypeVar("T")


class DownloadError(OSError):
    """A file could not be fetched; the message says what was tried."""


@dataclass(frozen=True, slots=True)
class Network:
    """How servers are spoken to; tests wait less."""

    timeout_s: float = TIMEOUT_S
    waits_s: tuple[float, ...] = WAITS_S
    max_bytes: int = MAX_BYTES
    say: Say = lambda _: None  # attempts that failed, and steps that take a while
    tell: Tell = lambda *_: None  # how far a file has come


def read_text(url: str, network: Network, max_bytes: int = 1 << 20) -> str:
    """Return a short text, such as a description in JSON."""

    def read() -> bytes:
        with _opened(url, network) as response:
            return bytes(response.read(max_bytes + 1))

    content = _persistently(url, read, network, lambda: 0)
    if len(content) > max_bytes:
        raise DownloadError(f"{url}: has more than {max_bytes} bytes, too many for what it should be.")
    return content.decode("utf-8", errors="replace")


def download(url: str, target: Path, md5: str, network: Network) -> None:
    """Fetch a file and verify it; what an interrupted fetch has left is gone on with.

    The file appears once it is whole and verified. Until then its beginning is beside it under a name that holds the
    checksum, so that pieces of two versions never meet.

    Raises
    ------
    DownloadError
        If the file cannot be had, is too large, or is not the one the checksum is of.
    """
    part = target.with_name(f"{target.name}.{md5[:12]}.part")
    handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        if not lock(handle):
            raise DownloadError(f"{part}: another fetch is writing to it. Wait for it to end.")
        _complete(url, part, handle, md5, network)
    finally:
        if not os.fstat(handle).st_size:
            part.unlink(missing_ok=True)  # nothing that a later fetch could go on with
        os.close(handle)
    part.replace(target)


def _complete(url: str, part: Path, handle: int, md5: str, network: Network) -> None:
    """Bring a part to its end and verify the whole."""

    def transfer() -> None:
        _persistently(url, lambda: _transfer(url, handle, network), network, lambda: os.fstat(handle).st_size)

    had = os.fstat(handle).st_size
    if had and checksum(part, "md5") == md5:
        return
    transfer()
    found = checksum(part, "md5")
    if had and found != md5:
        # Whatever was there before may be at fault; a fetch of the whole decides.
        network.say(f"{url}: what was left of an earlier fetch does not fit; fetching it anew")
        os.ftruncate(handle, 0)
        transfer()
        found = checksum(part, "md5")
    if found != md5:
        os.ftruncate(handle, 0)
        raise DownloadError(
            f"{url}: the file that came has the MD5 checksum {found}, but should have {md5}. It was thrown away. "
            "Try again later; if it happens again, the server's description and its file disagree."
        )
    os.fsync(handle)


def checksum(path: Path, algorithm: str) -> str:
    """Return a file's checksum ("md5", "sha256") in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def _transfer(url: str, handle: int, network: Network) -> None:
    """Append what is missing; a server that cannot send a part of a file sends it from its start."""
    had = os.fstat(handle).st_size
    try:
        with _opened(url, network, {"Range": f"bytes={had}-"} if had else {}) as response:
            total = _receive(url, response, handle, network)
    except HTTPError as error:
        if error.code != 416 or not had:
            raise
        error.close()
        return  # there is nothing after what we have: the checksum decides whether that is all
    had = os.fstat(handle).st_size
    if total is not None and had < total:
        raise HTTPException(f"the connection ended after {had} of {total} bytes")


def _receive(url: str, response: Any, handle: int, network: Network) -> int | None:
    """Write what a server sends; return how long the whole file is, where it says so."""
    had = os.fstat(handle).st_size
    if response.status != 206 or _start(response.headers) != had:
        os.ftruncate(handle, 0)
        if response.status == 206:
            raise HTTPException(f"asked for bytes from {had} on, got {response.headers['Content-Range']!r}")
        had = 0
    length = _length(response.headers)
    total = None if length is None else had + length
    _check_size(url, handle, total or 0, network)
    network.tell(had, total)
    while block := response.read(BLOCK_BYTES):
        had += len(block)
        _check_size(url, handle, had, network)
        _write(handle, block)
        network.tell(had, total)
    return total


def _check_size(url: str, handle: int, n_bytes: int, network: Network) -> None:
    if n_bytes > network.max_bytes:
        os.ftruncate(handle, 0)
        raise DownloadError(
            f"{url}: has {n_bytes} bytes or more; at most {network.max_bytes} are allowed. Not fetched."
        )


def _write(handle: int, block: bytes) -> None:
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _persistently(url: str, act: Callable[[], T], network: Network, n_bytes: Callable[[], int]) -> T:
    """Act until it succeeds, with growing waits; attempts in a row that bring nothing new are counted."""
    failed, most = 0, n_bytes()
    while True:
        try:
            return act()
        except (HTTPException, OSError) as error:
            if isinstance(error, DownloadError):
                raise
            if n_bytes() > most:
                failed, most = 0, n_bytes()
            reason = _reason(error)
            if not _is_passing(error) or failed == len(network.waits_s):
                tried = f" (tried {failed + 1} times)" if failed else ""
                raise DownloadError(f"{url}: {reason}{tried}.") from error
            wait = max(network.waits_s[failed], _asked_wait(error))
            failed += 1
            network.say(f"{url}: {reason}; trying again in {wait:g} s")
            sleep(wait)


def _is_passing(error: Exception) -> bool:
    if isinstance(error, HTTPError):
        return error.code in TRANSIENT
    if isinstance(error, URLError):
        return not isinstance(error.reason, ssl.SSLCertVerificationError)
    # Errors of the disk, such as a full one, are not the network's.
    return isinstance(error, HTTPException | ConnectionError | TimeoutError | ssl.SSLError)


def _reason(error: Exception) -> str:
    if isinstance(error, HTTPError):
        error.close()
        return f"the server answered {error.code} {error.reason}"
    if isinstance(error, URLError):
        return f"no connection: {error.reason}"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _asked_wait(error: Exception) -> float:
    """Seconds the server asks to wait, as far as we are willing to."""
    asked = error.headers.get("Retry-After", "") if isinstance(error, HTTPError) and error.headers else ""
    return min(float(asked), LONGEST_WAIT_S) if asked.isdecimal() else 0.0


@contextmanager
def _opened(url: str, network: Network, headers: dict[str, str] | None = None) -> Iterator[Any]:
    if urlsplit(url).scheme not in ("http", "https"):
        raise DownloadError(f"{url}: is not an address that starts with http:// or https://.")
    # A file is asked for as it is: positions in a packed one would not be positions in the file.
    own = {"User-Agent": f"adaam/{__version__}", "Accept-Encoding": "identity"}
    with urlopen(Request(url, headers=own | (headers or {})), timeout=network.timeout_s) as response:
        yield response


def _start(headers: HTTPMessage) -> int | None:
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", ""))
    return int(found[1]) if found else None


def _length(headers: HTTPMessage) -> int | None:
    told = headers.get("Content-Length", "")
    return int(told) if told.isdecimal() else None
