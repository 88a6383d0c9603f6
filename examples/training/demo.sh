#!/usr/bin/env bash
# The story of a training: it makes room for an urgent job, continues, loses a rank, continues
# again, and ends with the loss of a training by one rank.
#
#   demo.sh IMAGE WORK PLOT
#
# IMAGE is the archive of deploy/debian.sh. WORK is an empty directory that all nodes may mount and
# share. PLOT is the SVG to write. The cluster is one that the gang fills: two nodes of one core.
set -euo pipefail
image=$1 work=$2 plot=$3
cd "$(dirname "$0")"

say() { printf '\n%s\n' "$*"; }

# apply FILE applies a file, with the directory of this machine in it.
apply() { sed "s,/srv/training,$work," "$1" | escher apply -f - >/dev/null; }

# mark TEXT notes when an event happened, for the plot.
mark() { printf '{"time": %s, "what": "%s"}\n' "$(date +%s.%N)" "$1" >>"$work/gang/events.jsonl"; }

# steps N waits until so many steps were logged.
steps() {
  for _ in {1..600}; do
    [ -e "$work/gang/loss.jsonl" ] && [ "$(wc -l <"$work/gang/loss.jsonl")" -ge "$1" ] && return
    sleep 0.1
  done
  echo "the training does not come to $1 steps" >&2
  escher ps -a >&2
  exit 1
}

# rank N prints the id of the task of a rank.
rank() { escher ps -a --job train -o name | sed -n "$(($1 + 1))p"; }

say "the image has python3 and numpy; the code comes from this directory"
escher image load --all-nodes "$image"
apply alone.yaml
apply train.yaml
steps 160
say "four ranks train, and one alone to compare with"
escher ps

say "an urgent job needs a core: the gang has a second to save, and makes room"
apply urgent.yaml
sleep 0.5
escher why urgent
mark "urgent job"
escher wait urgent >/dev/null
steps 360
say "it has run, and the training went on where it had saved"
said=$(escher logs "$(rank 0)" 2>/dev/null)
echo "$said"
grep -q "saved, as it was warned" <<<"$said"

say "rank 2 is killed: all start again from the last checkpoint"
escher kill -s KILL "$(rank 2)" >/dev/null
mark "rank 2 killed"
escher wait train alone >/dev/null
escher logs --attempt 3 "$(rank 0)" 2>/dev/null

say "the loss of both, and a plot"
escher run --name compare --workdir . --mount "$work:/training" escher.local/python:3 -- \
  python3 compare.py /training/gang /training/alone /training/loss.svg
cp "$work/loss.svg" "$plot"
echo "plot: $plot"
