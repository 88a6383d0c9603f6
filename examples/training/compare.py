"""Compares the losses of two runs of train.py, and draws those of the first.

    python3 compare.py GANG ALONE PLOT

It exits with 1 if the losses at the end differ by more than rounding does. The file events.jsonl
of the first directory has times and texts to mark.
"""

import json
import math
import os
import sys
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 420, 60, 20, 50, 45


def read(*path):
    with open(os.path.join(*path)) as file:
        return [json.loads(line) for line in file]


def plot(steps, events, alone):
    """Returns an SVG of the loss by time: a line for each attempt, gaps where none ran."""
    begin, end = steps[0]["time"], steps[-1]["time"]
    losses = [s["loss"] for s in steps] + [alone]
    low, high = math.floor(math.log10(min(losses))), math.log10(max(losses))

    def x(when):
        return LEFT + (when - begin) / (end - begin) * (WIDTH - LEFT - RIGHT)

    def y(loss):
        return TOP + (high - math.log10(loss)) / (high - low) * (HEIGHT - TOP - BOTTOM)

    out = []

    def line(x1, y1, x2, y2, style):
        out.append(f'<path d="M{x1:.1f},{y1:.1f}L{x2:.1f},{y2:.1f}" {style}/>')

    def text(x, y, words, style=""):
        out.append(f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>')

    text(LEFT, 20, "loss of 4 ranks, by seconds", 'font-size="15"')
    for power in range(low, math.floor(high) + 1):
        line(LEFT, y(10**power), WIDTH - RIGHT, y(10**power), 'stroke="#ddd"')
        text(LEFT - 6, y(10**power) + 4, f"{10.0**power:g}", 'text-anchor="end"')
    for second in range(0, int(end - begin) + 1, 5):
        text(x(begin + second), HEIGHT - BOTTOM + 18, str(second), 'text-anchor="middle"')
    attempts = [[s for s in steps if s["attempt"] == a] for a in sorted({s["attempt"] for s in steps})]
    for before, after in zip(attempts, attempts[1:]):
        left, right = x(before[-1]["time"]), x(after[0]["time"])
        out.append(f'<rect x="{left:.1f}" y="{TOP}" width="{right - left:.1f}" height="{HEIGHT - TOP - BOTTOM}"'
                   ' fill="#f3e3d3"/>')
        text(right + 4, HEIGHT - BOTTOM - 8, f"from step {after[0]['step'] - 1}")
    for event in events:
        line(x(event["time"]), TOP - 8, x(event["time"]), HEIGHT - BOTTOM, 'stroke="#b33" stroke-dasharray="2 3"')
        text(x(event["time"]) + 4, TOP - 6, event["what"], 'fill="#b33"')
    line(LEFT, y(alone), WIDTH - RIGHT, y(alone), 'stroke="#383" stroke-dasharray="8 4"')
    text(LEFT + 6, y(alone) - 6, f"one rank ends at {alone:.9f}", 'fill="#383"')
    for attempt in attempts:
        points = " ".join(f'{x(s["time"]):.1f},{y(s["loss"]):.1f}' for s in attempt)
        out.append(f'<polyline points="{points}" fill="none" stroke="#246" stroke-width="2"/>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
            f' font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(out) + "\n</svg>\n")


def main(gang, alone, path):
    steps, one = read(gang, "loss.jsonl"), read(alone, "loss.jsonl")[-1]
    with open(path, "w") as file:
        file.write(plot(steps, read(gang, "events.jsonl"), one["loss"]))
    four = steps[-1]
    apart = abs(four["loss"] - one["loss"]) / one["loss"]
    print(f"4 ranks, {four['attempt']} attempts: loss {four['loss']:.15f} at step {four['step']}")
    print(f"1 rank:               loss {one['loss']:.15f} at step {one['step']}")
    print(f"relative difference:  {apart:.1e}")
    if apart > 1e-6 or four["step"] != one["step"]:
        sys.exit("the losses differ by more than rounding does")


if __name__ == "__main__":
    main(*sys.argv[1:])
