"""A training on a simulated GPU: each iteration loads data, computes and communicates.

The phases are sleeps. It prints when each began and ended, in seconds: overlap.py reads that.
"""

import os
import time

from rotation import Rotation


def main():
    rotation = Rotation(os.environ.get("ROTATION", "gpus"))
    phases = [part.split("=") for part in os.environ["PHASES"].split(",")]
    begin = time.monotonic()
    for _ in range(int(os.environ.get("ITERATIONS", "20"))):
        for name, length in phases:
            with rotation.phase(name):
                begun = time.time()
                time.sleep(float(length.removesuffix("ms")) / 1000)
                print(f"phase {name} {begun:.4f} {time.time():.4f}", flush=True)
    print(f"took {time.monotonic() - begin:.2f} s, of which it waited {rotation.waited():.2f} s; measured: {rotation.lengths()}", flush=True)


if __name__ == "__main__":
    main()
