"""Download a file: resume after an interrupt, verify it, and put it in place only when complete."""

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
    """Network settings; tests use shorter waits."""

    timeout_s: float = 30.0  # for connecting, and for each read
    waits_s: tuple[float, ...] = (1.0, 2.0, 4.0)  # before each retry; an attempt that brings new bytes resets the count
    max_bytes: int = 1 << 30  # the largest data set, MNIST as text, has about an eighth of it
    say: Callable[[str], None] = lambda _: None  # called with messages on failed attempts and slow steps
    tell: Callable[[int, int | None], None] = lambda *_: None  # called with bytes fetched, and in total if known


def read_text(url: str, network: Network, max_bytes: int = 1 << 20) -> str:
    """Return a short text, such as a description in JSON."""
    content = io.BytesIO()
    _persistently(url, content, replace(network, max_bytes=max_bytes, tell=lambda *_: None))
    return content.getvalue().decode("utf-8", errors="replace")


def download(url: str, target: Path, md5: str, network: Network) -> None:
    """Fetch a file and verify it; an interrupted fetch is resumed.

    The file appears once it is complete and verified. Until then its beginning is stored beside it under a name that
    contains the checksum, so that pieces of two versions are never mixed.
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
                # The part from an earlier fetch may be at fault, so the complete file is fetched once.
                network.say(f"{url}: what was left of an earlier fetch does not fit; fetching it anew")
            os.fsync(part.fileno())
        finally:
            if not part.tell():
                path.unlink(missing_ok=True)  # nothing that a later fetch could resume
    path.replace(target)


def checksum(path: Path, algorithm: str) -> str:
    """Return a file's checksum ("md5", "sha256") in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def _transfer(url: str, part: BinaryIO, network: Network) -> None:
    """Append the missing bytes; a server that does not support ranges sends the file from its start."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise DownloadError(f"{url}: is not an address that starts with http:// or https://.")
    had = part.tell()
    # No compression: positions in a compressed response would not be positions in the file.
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
            while block:  # a write may be partial
                block = block[part.write(block) :]
            network.tell(part.tell(), total)
    if total is not None and part.tell() < total:
        raise HTTPException(f"the connection ended after {part.tell()} of {total} bytes")


def _persistently(url: str, part: BinaryIO, network: Network) -> None:
    """Transfer until complete, with growing waits between attempts; give up after several without new bytes."""
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
    """Return the reason of an error, whether it is transient, and the wait the server asks for, within limits."""
    if isinstance(error, HTTPError):
        error.close()
        asked = error.headers.get("Retry-After", "") if error.headers else ""
        wait = min(float(asked), LONGEST_WAIT_S) if asked.isdecimal() else 0.0
        return f"the server answered {error.code} {error.reason}", error.code in TRANSIENT, wait
    if isinstance(error, URLError):
        return f"no connection: {error.reason}", not isinstance(error.reason, ssl.SSLCertVerificationError), 0.0
    # Disk errors, such as a full disk, are not transient.
    is_passing = isinstance(error, HTTPException | ConnectionError | TimeoutError | ssl.SSLError)
    return ": ".join(filter(None, (type(error).__name__, str(error)))), is_passing, 0.0
