#!/usr/bin/python3
"""follow.py SOCKET NAMESPACE FILE prints each change of a task: its revision, the task and its phase.

FILE keeps the id of the last event: after a kill, the program goes on from there."""
import http.client, json, socket, sys, time
from pathlib import Path

SOCKET, NAMESPACE, FILE = sys.argv[1:]

class Escher(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)  # a watch sends something every 15 seconds
        self.sock.connect(SOCKET)

def follow(last):
    """Yields the events after the one with the id last, until the connection is lost."""
    escher, event = Escher("escher"), {}
    escher.request("GET", f"/v1/namespaces/{NAMESPACE}/watch", headers={"Last-Event-ID": last})
    answer = escher.getresponse()
    if answer.status != 200:
        raise OSError(answer.read().decode())
    for line in answer:
        name, _, event[name] = line.decode().rstrip("\n").partition(": ")
        if line == b"\n":  # the end of an event
            yield event
            event = {}

while True:
    try:
        for event in follow(Path(FILE).read_text() if Path(FILE).exists() else ""):
            if event.get("event") == "task":
                task = json.loads(event["data"])
                print(task["revision"], task["id"], task.get("phase", "removed"), flush=True)
            if "id" in event:  # all changes up to this revision were printed
                Path(FILE + ".new").write_text(event["id"])
                Path(FILE + ".new").replace(FILE)
    except (OSError, http.client.HTTPException) as lost:
        print("lost:", lost, file=sys.stderr)
    time.sleep(1)
