#!/usr/bin/python3
"""Receives the calls of webhook.py, and prints each end once.

    receiver.py PORT DATABASE
"""
import sqlite3, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

database = sqlite3.connect(sys.argv[2])
database.execute("CREATE TABLE IF NOT EXISTS ends (key TEXT PRIMARY KEY, job TEXT)")

class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        key, job = self.headers["Idempotency-Key"], self.rfile.read(int(self.headers["Content-Length"])).decode()
        with database:  # do what an end leads to in the same transaction
            if database.execute("INSERT OR IGNORE INTO ends VALUES (?, ?)", (key, job)).rowcount:
                print(key, job, flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass  # a call that comes again is not worth a line

server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
