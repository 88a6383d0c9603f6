"""Take turns with the tasks that share a GPU by the policy interleave.

    rotation = Rotation("gpus")
    with rotation.phase("data"):
        batch = load()
    with rotation.phase("compute"):
        ...

While no other task shares the device, and where there is no policy, a phase begins at once.
"""

import contextlib
import os
import socket
import time

# AGAIN is how long a task runs on without asking when there is no rotation.
AGAIN = 1.0


class Rotation:
    """The rotation of the device of this task.

    policy is the name of the declared interleave, limit how many seconds a phase may last until the
    agent lets the next task into it. A task that hangs keeps its partners waiting for so long, once.
    """

    def __init__(self, policy, limit=10.0):
        device = os.environ.get("ESCHER_DEVICES", "").split(",")[0].split("=", 1)[-1]
        short = "".join(c for c in device if c.isascii() and c.isalnum())[-12:]
        self.prefix = f"{policy}.interleave.turn.{short}."
        self.socket = os.environ.get("ESCHER_SOCKET", "")
        self.limit = limit
        self.again = 0.0  # when to ask again
        self.spent = {}  # by phase: how often, how long, and how long it waited for its turn

    @contextlib.contextmanager
    def phase(self, name):
        """Wait for the turn of this task, and be in the phase until the end of the block."""
        asked = time.monotonic()
        held = self._hold(name)
        begun = time.monotonic()
        try:
            yield
        finally:
            if held:
                held.close()  # the next task is in this phase
            times, long, waited = self.spent.get(name, (0, 0.0, 0.0))
            self.spent[name] = times + 1, long + time.monotonic() - begun, waited + begun - asked

    def lengths(self):
        """The measured phases, as a job declares them: data=300ms,compute=400ms."""
        return ",".join(f"{name}={long / times * 1000:.0f}ms" for name, (times, long, _) in self.spent.items())

    def waited(self):
        """How many seconds this task has waited for its turns."""
        return sum(waited for _, _, waited in self.spent.values())

    def _hold(self, name):
        """Return the connection that holds the unit of a phase; None if there is no rotation."""
        if time.monotonic() < self.again or not self.socket:
            return None
        conn = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Each of up to three partners is in the phase for limit at most.
            end = time.monotonic() + 4 * self.limit
            conn.settimeout(4 * self.limit)
            conn.connect(self.socket)
            conn.sendall(f"GET /v1/hold?name={self.prefix}{name}&limit={self.limit}s HTTP/1.0\r\n\r\n".encode())
            answer = b""
            while b"event: held" not in answer:
                more = conn.recv(4096)
                conn.settimeout(max(end - time.monotonic(), 0.001))
                answer += more
                if not more or not answer.startswith(b"HTTP/1.0 200"[: len(answer)]):
                    raise OSError(answer.decode(errors="replace"))
            return conn
        except OSError:  # there is no rotation, or the agent is away
            conn.close()
            self.again = time.monotonic() + AGAIN
            return None
