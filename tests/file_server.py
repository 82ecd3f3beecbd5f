"""A local file server with the faults that servers have."""

import hashlib
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np


class FileServer(ThreadingHTTPServer):
    """Serves `files` (path -> bytes); each request for a path uses up the first of its `faults`, if any.

    A fault is a dict: status (an error), retry_after, cut (bytes to send before the connection breaks), ranges
    (False: ignore Range and send the whole file), content_range (a wrong one), length (False: no Content-Length), drip
    (seconds before each 4 KiB).
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.faults, self.asked = {}, {}, []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        """Ignore errors: tests disconnect on purpose."""


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        server.asked.append((self.path, self.headers.get("Range")))
        waiting = server.faults.get(self.path, [])
        fault = waiting.pop(0) if waiting else {}
        if "status" in fault or self.path not in server.files:
            return self.refuse(fault.get("status", 404), fault)
        content = server.files[self.path]
        start = 0
        if self.headers.get("Range") and fault.get("ranges", True):
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                return self.refuse(416, fault)
            self.send_response(206)
            told = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self.send_header("Content-Range", fault.get("content_range", told))
        else:
            self.send_response(200)
        if fault.get("length", True):
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        return self.send(content[start:][: fault.get("cut")], fault.get("drip", 0))

    def send(self, content, drip):
        for place in range(0, len(content), 4096):
            time.sleep(drip)
            self.wfile.write(content[place : place + 4096])

    def refuse(self, status, fault):
        self.send_response(status)
        if "retry_after" in fault:
            self.send_header("Retry-After", fault["retry_after"])
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def running_server():
    server = FileServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def usps_arff():
    """Return an ARFF file in the form of USPS (classes 1..10, then ink from -1 to 1), and its few distinct rows."""
    rng = np.random.default_rng(0)
    values = rng.integers(-1000, 1001, (20, 256)) / 1000
    ends = [",".join(f"{value:g}" for value in row) for row in values]
    header = "@relation USPS\n@attribute int0 {1,2,3,4,5,6,7,8,9,10}\n"
    header += "".join(f"@attribute double{j} real\n" for j in range(1, 257))
    rows = "".join(f"{1 + i % 10},{ends[i % 20]}\n" for i in range(9298))
    return (header + "@data\n" + rows).encode(), values


USPS, USPS_VALUES = usps_arff()


def offer(server, content, data_id, target, **changes):
    """Put a data set on the server with a description like those of OpenML; return its path."""
    path = f"/data/v1/download/{data_id}/set.arff"
    server.files[path] = content
    told = {
        "id": str(data_id),
        "name": "set",
        "format": "ARFF",
        "url": server.url + path,
        "parquet_url": f"{server.url}/datasets/dataset_{data_id}.pq",
        "default_target_attribute": target,
        "status": "active",
        "md5_checksum": hashlib.md5(content).hexdigest(),
    }
    answer = json.dumps({"data_set_description": told | changes}).encode()
    server.files[f"/api/v1/json/data/{data_id}"] = answer
    return path
