#!/usr/bin/python3
"""Makes a resource of the cluster of what a metric of Prometheus leaves of a budget.

    metric.py SOCKET NAMESPACE RESOURCE BUDGET PROMETHEUS QUERY

It has no state: each reading sets the capacity, and an equal one changes nothing. While there is no
reading, the capacity stays as it is.
"""
import http.client, json, math, os, socket, sys, time, urllib.parse, urllib.request

SOCKET, NAMESPACE, RESOURCE, BUDGET, PROMETHEUS, QUERY = sys.argv[1:]
EVERY = float(os.environ.get("EVERY", "15"))  # seconds

class Escher(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(SOCKET)

def reading():
    """Returns the present value of the query."""
    query = urllib.parse.urlencode({"query": QUERY})
    with urllib.request.urlopen(f"{PROMETHEUS}/api/v1/query?{query}", timeout=10) as answer:
        result = json.load(answer)["data"]["result"]
    if len(result) != 1:
        raise ValueError(f"{QUERY} has {len(result)} results: write a query that has one")
    return float(result[0]["value"][1])

def set_capacity(amount):
    """Sets the resource. One of capacity 0 is kept, and closed."""
    body = {"name": RESOURCE, "capacity": str(amount), "where": {"cluster": True}, "declare": True}
    escher = Escher("escher")
    escher.request("POST", f"/v1/namespaces/{NAMESPACE}/resources", json.dumps(body), {"Content-Type": "application/json"})
    answer = escher.getresponse()
    if answer.status != 200:
        raise OSError(answer.read().decode())

while True:
    try:
        set_capacity(max(0, math.floor(float(BUDGET) - reading())))
    except Exception as error:  # also an answer of another form
        print("not set:", error, file=sys.stderr)
    time.sleep(EVERY)
