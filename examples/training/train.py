"""Data-parallel training with the standard library and numpy.

    python3 train.py DIRECTORY

Each rank computes the gradient of its part of the data, and all take the same step by the sum of
all gradients. So the loss is that of one rank alone, but for rounding. A rank learns from its
environment which one it is (ESCHER_INDEX), and where all of them are (ESCHER_PEERS).

Rank 0 keeps a checkpoint in the directory. It saves every 150 steps, and at the next step after
any rank was warned (SIGUSR1). A new attempt continues there. PACE is the least time of a step in
seconds: with it, a short training takes long enough to be disturbed.
"""

import json
import os
import signal
import socket
import sys
import time

warned = 0


def warn(*_):
    global warned
    warned += 1


# Before numpy is loaded, which takes a while: a warning without a handler would be lost.
signal.signal(signal.SIGUSR1, warn)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

import numpy as np  # noqa: E402

STEPS, SAVE_EVERY, POINTS, HIDDEN, RATE = 600, 150, 3000, 32, 0.005
SHAPES = [(2, HIDDEN), (HIDDEN,), (HIDDEN, HIDDEN), (HIDDEN,), (HIDDEN, 1), (1,)]
SIZE = sum(int(np.prod(s)) for s in SHAPES)


class Ring:
    """All ranks in a ring: each receives from the one before it, and sends to the one after it."""

    def __init__(self, rank, peers, attempt, patience=120):
        self.rank, self.ranks = rank, len(peers)
        if self.ranks == 1:
            return
        addresses = [tuple(p.replace("[", "").replace("]", "").rsplit(":", 1)) for p in peers]
        before, after = (rank - 1) % self.ranks, (rank + 1) % self.ranks
        with socket.create_server(("", int(addresses[rank][1]))) as door:
            door.settimeout(patience)
            deadline = time.monotonic() + patience
            while True:  # the next rank may start later
                try:
                    self.next = socket.create_connection(addresses[after], timeout=patience)
                    break
                except ConnectionRefusedError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)
            self.next.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.next.sendall(f"rank {rank} attempt {attempt}\n".encode())
            hello = b""
            while hello != f"rank {before} attempt {attempt}\n".encode():  # the port is open to all
                connection, _ = door.accept()
                connection.settimeout(patience)
                self.previous = connection.makefile("rb")
                hello = self.previous.readline(100)

    def sum(self, vector):
        """Makes the vector the sum of those of all ranks, with the same bits in each.

        Each of as many parts as there are ranks goes around twice: once to be summed up, and once
        to be told to all.
        """
        parts = np.array_split(vector, self.ranks)
        for turn in range(2 * (self.ranks - 1)):
            out, into = parts[(self.rank - turn) % self.ranks], parts[(self.rank - turn - 1) % self.ranks]
            if self.rank % 2:  # odd ranks read first: if all were writing, none would read
                got = self.receive(into.nbytes)
                self.next.sendall(out)
            else:
                self.next.sendall(out)
                got = self.receive(into.nbytes)
            into[:] = got + into if turn < self.ranks - 1 else got
        return vector

    def receive(self, size):
        data = self.previous.read(size)
        if len(data) < size:
            raise ConnectionError("the rank before this one has gone")
        return np.frombuffer(data)


def spirals(rank, ranks):
    """Returns a rank's part of the data: points of two spirals, and to which each belongs."""
    random = np.random.default_rng(1)
    turn = 3 * np.pi * np.sqrt(random.random((POINTS, 1)))
    side = random.integers(0, 2, (POINTS, 1))
    x = np.hstack([np.cos(turn + np.pi * side), np.sin(turn + np.pi * side)]) * turn / 5
    x += random.normal(0, 0.05, x.shape)
    return x[rank::ranks], side[rank::ranks]


def gradient(weights, x, side):
    """Returns the gradient of the loss of these points, and the loss."""
    cuts = np.cumsum([int(np.prod(s)) for s in SHAPES])[:-1]
    a, b, c, d, e, f = (w.reshape(s) for w, s in zip(np.split(weights, cuts), SHAPES))
    h = np.tanh(x @ a + b)
    g = np.tanh(h @ c + d)
    z = g @ e + f
    loss = np.sum(np.logaddexp(0, z) - side * z) / POINTS
    dz = (1 / (1 + np.exp(-z)) - side) / POINTS
    dg = dz @ e.T * (1 - g * g)
    dh = dg @ c.T * (1 - h * h)
    grads = x.T @ dh, dh.sum(0), h.T @ dg, dg.sum(0), g.T @ dz, dz.sum(0)
    return np.concatenate([g.ravel() for g in grads]), loss


def save(path, state):
    """Replaces a checkpoint. A reader finds the old one or the new one, and never a part."""
    with open(path + ".new", "wb") as file:
        np.save(file, state)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def start(path):
    """Returns the state of a checkpoint, or a new one: weights, two means of Adam, step."""
    if os.path.exists(path):
        return np.load(path)
    state = np.zeros(3 * SIZE + 1)
    state[:SIZE] = np.random.default_rng(2).normal(0, 0.5, SIZE)
    return state


def train(directory):
    rank = int(os.environ.get("ESCHER_INDEX", 0))
    peers = os.environ.get("ESCHER_PEERS", "localhost:0").split(",")
    attempt = int(os.environ.get("ESCHER_ATTEMPT", 1))
    checkpoint = os.path.join(directory, "checkpoint.npy")
    if rank == 0:
        os.makedirs(directory, exist_ok=True)
        log = open(os.path.join(directory, "loss.jsonl"), "a", buffering=1)
    ring = Ring(rank, peers, attempt)
    # Rank 0 tells the others where to begin: a sum with zeros.
    state = ring.sum(start(checkpoint) if rank == 0 else np.zeros(3 * SIZE + 1))
    weights, mean, square, step = np.split(state, [SIZE, 2 * SIZE, 3 * SIZE])  # views
    print(f"rank {rank} of {len(peers)}, attempt {attempt}: from step {step[0]:.0f}", flush=True)

    x, side = spirals(rank, len(peers))
    pace, heard = float(os.environ.get("PACE", 0)), 0
    while step[0] < STEPS:
        end = time.monotonic() + pace
        grad, loss = gradient(weights, x, side)
        # The number of warnings goes around, too: so all learn of one at the same step.
        total = ring.sum(np.concatenate([grad, [loss, warned]]))
        grad, loss, warnings = total[:-2], float(total[-2]), total[-1]
        step += 1
        mean += 0.1 * (grad - mean)
        square += 0.01 * (grad * grad - square)
        weights -= RATE * mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
        if rank == 0:
            line = {"attempt": attempt, "step": int(step[0]), "time": time.time(), "loss": loss}
            log.write(json.dumps(line) + "\n")
            if warnings > heard or step[0] % SAVE_EVERY == 0 or step[0] == STEPS:
                save(checkpoint, state)
                why = ", as it was warned" * (warnings > heard)
                print(f"step {step[0]:.0f}: loss {loss:.6f}, saved{why}", flush=True)
        heard = warnings
        time.sleep(max(0, end - time.monotonic()))
    ring.sum(np.zeros(1))  # no rank leaves before the last checkpoint is there


def main():
    try:
        train(sys.argv[1])
    except OSError as error:  # the gang starts again
        sys.exit(f"rank {os.environ.get('ESCHER_INDEX', 0)} ends: {error}")


if __name__ == "__main__":
    main()
