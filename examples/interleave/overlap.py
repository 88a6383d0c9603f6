"""Say how long two tasks were in the same phase at once: overlap.py LOG LOG"""

import sys


def phases(path):
    """Return the phases of a log, as name, begin and end."""
    with open(path) as log:
        words = [line.split() for line in log if line.startswith("phase ")]
    return [(name, float(begin), float(end)) for _, name, begin, end in words]


def main():
    first, second = phases(sys.argv[1]), phases(sys.argv[2])
    together = {}
    for name, begin, end in first:
        for other, other_begin, other_end in second:
            if name == other:
                both = min(end, other_end) - max(begin, other_begin)
                together[name] = together.get(name, 0.0) + max(both, 0.0)
    for name, seconds in together.items():
        print(f"{name}: {seconds:.3f} s in it at once")


if __name__ == "__main__":
    main()
