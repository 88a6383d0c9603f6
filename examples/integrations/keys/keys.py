#!/usr/bin/python3
"""Follows the statuses of the tasks of a namespace by etcd's own watch, and prints each change: its revision, the
task and its phase. keys/main.go does the same in Go.

    keys.py ENDPOINT NAMESPACE FILE

FILE keeps how far it was, and which keys there were: after a kill, the program goes on from there.
"""
import json, sys, time
from pathlib import Path

import grpc
from google.protobuf.message import DecodeError
import escher_pb2 as escher, etcd_pb2 as etcd  # protoc makes them: see README.md

ENDPOINT, NAMESPACE, FILE = sys.argv[1:]
PREFIX = f"/escher/status/{NAMESPACE}/".encode()
RANGE = {"key": PREFIX, "range_end": PREFIX[:-1] + b"0"}  # 0 follows /

channel = grpc.insecure_channel(ENDPOINT, [("grpc.max_receive_message_length", -1)])
read = channel.unary_unary("/etcdserverpb.KV/Range", etcd.RangeRequest.SerializeToString, etcd.RangeResponse.FromString)
watch = channel.stream_stream("/etcdserverpb.Watch/Watch", etcd.WatchRequest.SerializeToString, etcd.WatchResponse.FromString)

def load():
    """Returns the revision up to which all changes were printed, and the keys at that revision."""
    if not Path(FILE).exists():
        return 0, set()
    at = json.loads(Path(FILE).read_text())
    return at["revision"], set(at["keys"])

def save(revision, keys):
    Path(FILE + ".new").write_text(json.dumps({"revision": revision, "keys": dict.fromkeys(keys, True)}))
    Path(FILE + ".new").replace(FILE)

def phase_of(value):
    """Returns the phase in a value: a byte that says the version of the encoding, and a message."""
    try:
        return escher.Status.FromString(value[1:]).phase if value[:1] == b"\1" else "unreadable"
    except DecodeError:
        return "unreadable"

def see(keys, key, revision, value):
    """Prints a change, and notes the key. The value of a removed key is None."""
    if value is None:
        keys.discard(key)
    else:
        keys.add(key)
    print(revision, key.removeprefix(PREFIX.decode()), "removed" if value is None else phase_of(value), flush=True)

def compare(last, keys):
    """Prints the difference between the present keys and those at the revision last."""
    answer = read(etcd.RangeRequest(**RANGE))
    for kv in answer.kvs:
        if kv.mod_revision > last:
            see(keys, kv.key.decode(), kv.mod_revision, kv.value)
    for key in keys - {kv.key.decode() for kv in answer.kvs}:
        see(keys, key, answer.header.revision, None)
    save(answer.header.revision, keys)

def follow():
    """Prints changes until the watch ends."""
    last, keys = load()
    if last == 0:
        return compare(last, keys)
    create = etcd.WatchCreateRequest(**RANGE, start_revision=last + 1)
    for answer in watch(iter([etcd.WatchRequest(create_request=create)])):
        if answer.compact_revision:  # the history since the last change is gone
            return compare(last, keys)
        if answer.canceled:
            return print("canceled:", answer.cancel_reason, file=sys.stderr)
        for event in answer.events:
            see(keys, event.kv.key.decode(), event.kv.mod_revision, None if event.type == etcd.Event.DELETE else event.kv.value)
        if answer.events:
            last = event.kv.mod_revision
            save(last, keys)

while True:
    try:
        follow()
    except grpc.RpcError as lost:
        print("lost:", lost.code(), file=sys.stderr)
        time.sleep(1)
