"""A server of files on this machine, with the faults that servers have."""

import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FileServer(ThreadingHTTPServer):
    """Serves `files` (path -> bytes); the next request for a path takes the first of its `faults`, if any.

    A fault is a dict: status (an error), retry_after, cut (bytes to send before the line breaks), ranges (False: send
    the whole whatever is asked for), content_range (a wrong one), length (False: do not tell it), drip (seconds before
    each 4 KiB).
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.faults, self.asked = {}, {}, []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        """Clients that go away are part of the tests."""


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
