#!/usr/bin/python3
"""Calls a URL on each end of a job: POST, with the job as JSON.

    webhook.py SOCKET NAMESPACE URL FILE

The header Idempotency-Key has the revision of the end and the id of the job. A receiver that keeps
the keys sees each end exactly once. FILE keeps the revision up to which all ends were delivered: after
a kill, the program goes on from there.
"""
import http.client, itertools, json, socket, sys, time, urllib.request
from pathlib import Path

SOCKET, NAMESPACE, URL, FILE = sys.argv[1:]
ENDED = {"succeeded", "failed", "cancelled"}

class Escher(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)  # a watch sends something every 15 seconds
        self.sock.connect(SOCKET)

def get(path):
    escher = Escher("escher")
    escher.request("GET", f"/v1/namespaces/{NAMESPACE}/{path}")
    answer = escher.getresponse()
    if answer.status != 200:
        raise OSError(answer.read().decode())
    return answer

def deliver(last):
    """Calls for each job that ended after the revision last. Returns a revision: all ends up to it are delivered."""
    pages = [json.load(get("jobs"))]
    while "next" in pages[-1]:
        pages.append(json.load(get(f"jobs?after={pages[-1]['next']}")))
    until = pages[0]["revision"]  # later ends may be missing on the first page
    jobs = [job for page in pages for job in page["items"] if job["phase"] in ENDED and last < job["revision"] <= until]
    revision = lambda job: job["revision"]
    for at, ends in itertools.groupby(sorted(jobs, key=revision), revision):
        for job in ends:
            call(job)
        save(at)
    return until

def call(job):
    """Calls the receiver until it accepts: again after 0.1 s, then after twice as long each time, up to a minute."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": f"{job['revision']}/{job['id']}"}
    wait = 0.1
    while True:
        try:
            return urllib.request.urlopen(urllib.request.Request(URL, json.dumps(job).encode(), headers), timeout=30).close()
        except (OSError, http.client.HTTPException) as refused:
            print(f"{job['id']} is not delivered: {refused}: again in {wait:g} s", file=sys.stderr)
        time.sleep(wait)
        wait = min(2 * wait, 60)

def save(revision):
    Path(FILE + ".new").write_text(str(revision))
    Path(FILE + ".new").replace(FILE)

while True:
    try:
        last = int(Path(FILE).read_text()) if Path(FILE).exists() else 0
        for line in get(f"watch?after={last}"):
            if line.startswith(b"data: "):
                task = json.loads(line[6:])
                if task.get("phase") in ENDED and task["revision"] > last:  # a job may have ended
                    last = deliver(last)
    except (OSError, http.client.HTTPException) as lost:
        print("lost:", lost, file=sys.stderr)
    time.sleep(1)
