"""A file from the network: fetched in pieces that outlive an interrupt, verified, and then there as a whole."""

import hashlib
import io
import os
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from time import sleep
from typing import BinaryIO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from adaam._version import __version__
from adaam.files import lock

BLOCK_BYTES = 1 << 16
LONGEST_WAIT_S = 60.0
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


class DownloadError(OSError):
    """A file could not be fetched; the message says what was tried."""


@dataclass(frozen=True, slots=True)
class Network:
    """How servers are spoken to; tests wait less."""

    timeout_s: float = 30.0  # for a connection, and for each piece to come
    waits_s: tuple[float, ...] = (1.0, 2.0, 4.0)  # before each new attempt; one that brings bytes starts the count anew
    max_bytes: int = 1 << 30  # the largest of the sets, MNIST as text, has about an eighth of it
    say: Callable[[str], None] = lambda _: None  # attempts that failed, and steps that take a while
    tell: Callable[[int, int | None], None] = lambda *_: None  # bytes that are there, and in all where known


def read_text(url: str, network: Network, max_bytes: int = 1 << 20) -> str:
    """Return a short text, such as a description in JSON."""
    content = io.BytesIO()
    _persistently(url, content, replace(network, max_bytes=max_bytes, tell=lambda *_: None))
    return content.getvalue().decode("utf-8", errors="replace")


def download(url: str, target: Path, md5: str, network: Network) -> None:
    """Fetch a file and verify it; what an interrupted fetch has left is gone on with.

    The file appears once it is whole and verified. Until then its beginning is beside it under a name that holds the
    checksum, so that pieces of two versions never meet.
    """
    path = target.with_name(f"{target.name}.{md5[:12]}.part")
    with path.open("ab", buffering=0) as part:
        if not lock(part.fileno()):
            raise DownloadError(f"{path}: another fetch is writing to it. Wait for it to end.")
        try:
            while (had := part.tell()) == 0 or checksum(path, "md5") != md5:
                _persistently(url, part, network)
                found = checksum(path, "md5")
                if found == md5:
                    break
                part.truncate(part.seek(0))
                if not had:
                    raise DownloadError(
                        f"{url}: the file that came has the MD5 checksum {found}, but should have {md5}. It was thrown "
                        "away. Try again later; if it happens again, the server's description and its file disagree."
                    )
                # Whatever was there before may be at fault; a fetch of the whole decides.
                network.say(f"{url}: what was left of an earlier fetch does not fit; fetching it anew")
            os.fsync(part.fileno())
        finally:
            if not part.tell():
                path.unlink(missing_ok=True)  # nothing that a later fetch could go on with
    path.replace(target)


def checksum(path: Path, algorithm: str) -> str:
    """Return a file's checksum ("md5", "sha256") in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def _transfer(url: str, part: BinaryIO, network: Network) -> None:
    """Append what is missing; a server that cannot send a part of a file sends it from its start."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise DownloadError(f"{url}: is not an address that starts with http:// or https://.")
    had = part.tell()
    # A file is asked for as it is: positions in a packed one would not be positions in the file.
    headers = {"User-Agent": f"adaam/{__version__}", "Accept-Encoding": "identity"}
    headers |= {"Range": f"bytes={had}-"} if had else {}
    try:
        response = urlopen(Request(url, headers=headers), timeout=network.timeout_s)
    except HTTPError as error:
        if error.code != 416 or not had:
            raise
        error.close()
        return  # there is nothing after what we have: the checksum decides whether that is all
    with response:
        told = response.headers.get("Content-Range", "")
        is_rest = response.status == 206 and re.match(rf"bytes {had}-\d+/", told)
        if not is_rest:
            part.truncate(part.seek(0))
        if response.status == 206 and not is_rest:
            raise HTTPException(f"asked for bytes from {had} on, got {told!r}")
        length = response.headers.get("Content-Length", "")
        total = part.tell() + int(length) if length.isdecimal() else None
        network.tell(part.tell(), total)
        while block := response.read(BLOCK_BYTES):
            n_bytes = max(total or 0, part.tell() + len(block))
            if n_bytes > network.max_bytes:
                part.truncate(part.seek(0))
                what = f"has {n_bytes} bytes or more; at most {network.max_bytes} are allowed. Not fetched"
                raise DownloadError(f"{url}: {what}.")
            while block:  # a write may take the beginning alone
                block = block[part.write(block) :]
            network.tell(part.tell(), total)
    if total is not None and part.tell() < total:
        raise HTTPException(f"the connection ended after {part.tell()} of {total} bytes")


def _persistently(url: str, part: BinaryIO, network: Network) -> None:
    """Transfer until all is there, with growing waits; attempts in a row that bring nothing new are counted."""
    failed, most = 0, part.tell()
    while True:
        try:
            return _transfer(url, part, network)
        except DownloadError:
            raise
        except (HTTPException, OSError) as error:
            if part.tell() > most:
                failed, most = 0, part.tell()
            reason, is_passing, wait = _judged(error)
            if not is_passing or failed == len(network.waits_s):
                tried = f" (tried {failed + 1} times)" if failed else ""
                raise DownloadError(f"{url}: {reason}{tried}.") from error
            wait = max(network.waits_s[failed], wait)
            failed += 1
            network.say(f"{url}: {reason}; trying again in {wait:g} s")
            sleep(wait)


def _judged(error: Exception) -> tuple[str, bool, float]:
    """Return what an error is, whether it may pass, and how long the server asks us to wait, within limits."""
    if isinstance(error, HTTPError):
        error.close()
        asked = error.headers.get("Retry-After", "") if error.headers else ""
        wait = min(float(asked), LONGEST_WAIT_S) if asked.isdecimal() else 0.0
        return f"the server answered {error.code} {error.reason}", error.code in TRANSIENT, wait
    if isinstance(error, URLError):
        return f"no connection: {error.reason}", not isinstance(error.reason, ssl.SSLCertVerificationError), 0.0
    # Errors of the disk, such as a full one, are not the network's.
    is_passing = isinstance(error, HTTPException | ConnectionError | TimeoutError | ssl.SSLError)
    return ": ".join(filter(None, (type(error).__name__, str(error)))), is_passing, 0.0
