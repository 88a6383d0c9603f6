#!/usr/bin/env bash
# Tries the GPU of this machine with a real agent and real containers: gpucheck.sh BIN
# BIN is the directory of escher. It takes root, containerd, runc, busybox, nvcc and one or more
# cards of NVIDIA. It starts a cluster of its own, and removes all of it at the end, unless KEEP=1.
# PHASES="400 10 0.8" are the arguments of spin for the jobs that alternate.
set -euo pipefail
bin=$(realpath "${1:-bin}")
dir=$(mktemp -d /tmp/gpucheck.XXXX)
export ESCHER_DIR=$dir/dev HOME=$dir PATH=$bin:$PATH
failed=0
cleanup() { kill "${agent:-}" "${server:-}" 2>/dev/null || true; kill -INT "${dev:-}" 2>/dev/null || true; wait 2>/dev/null || true
  [ -z "${KEEP:-}" ] && rm -rf "$dir"; return 0; }
trap cleanup EXIT
say() { printf '%5.1f s  %s\n' "$(awk -v a="$EPOCHREALTIME" -v b="$began" 'BEGIN { print a - b }')" "$*"; }
check() { # NAME COMMAND...
  if "${@:2}"; then say "ok      $1"; else say "FAILED  $1"; failed=1; fi
}
began=$EPOCHREALTIME

# spin KERNELS PHASES IDLE computes on the card, and then idles for so many seconds, in each phase.
# It fails if a result is wrong.
cat > "$dir/spin.cu" <<'CU'
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
static double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
__global__ void work(float *x, int n, float v, int rounds) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (int k = 0; k < rounds; k++) v = v * 0.5f + 0.5f;
  x[i] = v;
}
int main(int argc, char **argv) {
  int kernels = argc > 1 ? atoi(argv[1]) : 1, phases = argc > 2 ? atoi(argv[2]) : 1;
  double idle = argc > 3 ? atof(argv[3]) : 0;
  const int n = 1 << 22;
  float *x, first = 0;
  if (auto e = cudaMalloc(&x, n * sizeof *x)) { printf("no device: %s\n", cudaGetErrorString(e)); return 3; }
  double began = now(), busy = 0;
  for (int p = 0; p < phases; p++) {
    double t = now();
    for (int k = 0; k < kernels; k++) work<<<n / 256, 256>>>(x, n, 1, 1 << 14);
    cudaMemcpy(&first, x + n - 1, sizeof first, cudaMemcpyDeviceToHost);
    busy += now() - t;
    if (first != 1) { printf("wrong: %g\n", first); return 4; }
    std::this_thread::sleep_for(std::chrono::duration<double>(idle));
  }
  printf("%d phases in %.2f s, %.2f s of them on the card\n", phases, now() - began, busy);
}
CU
mkdir -p "$dir/code/lib" "$dir/cdi"
nvcc -O2 -cudart static -o "$dir/code/spin" "$dir/spin.cu"
# The libraries are those that the program has here, the driver's among them.
LD_DEBUG=libs "$dir/code/spin" 1 1 > "$dir/libs" 2>&1 || { tail -1 "$dir/libs"; exit 1; }
for lib in $(grep -o 'calling init: /[^ ]*' "$dir/libs" | cut -d' ' -f3 | sort -u) /lib64/ld-linux-x86-64.so.2; do
  cp -L "$lib" "$dir/code/lib/"
done
printf '#!/bin/sh\nexec /workdir/lib/ld-linux-x86-64.so.2 --library-path /workdir/lib /workdir/spin "$@"\n' > "$dir/code/run"
chmod +x "$dir/code/run"

# The specification of nvidia-ctk where there is one, else one with the files of the cards.
cdi=/etc/cdi
if command -v nvidia-ctk >/dev/null; then
  cdi=$dir/cdi; nvidia-ctk cdi generate --output="$dir/cdi/nvidia.yaml" 2>/dev/null
elif ! ls /etc/cdi/*nvidia* >/dev/null 2>&1; then
  cdi=$dir/cdi
  { printf 'cdiVersion: "0.5.0"\nkind: nvidia.com/gpu\ndevices:\n'
    nvidia-smi --query-gpu=index,uuid --format=csv,noheader | while IFS=', ' read -r i uuid; do
      printf -- '- name: %s\n  containerEdits: {deviceNodes: [{path: /dev/nvidia%s}]}\n' "$uuid" "$i"
    done
    printf 'containerEdits:\n  env: [NVIDIA_VISIBLE_DEVICES=void]\n  deviceNodes:\n'
    for f in /dev/nvidiactl /dev/nvidia-uvm /dev/nvidia-uvm-tools; do [ -e $f ] && printf '  - path: %s\n' $f; done
  } > "$dir/cdi/nvidia.yaml"
fi

escher dev --cpu 1 --memory 1Gi --containerd private > "$dir/dev.log" 2>&1 & dev=$!
for _ in $(seq 300); do escher ps >/dev/null 2>&1 && break; sleep 0.1; done
escher server --endpoints "unix://$ESCHER_DIR/etcd/run/etcd.sock" --ops "unix://$dir/ops.sock" > "$dir/server.log" 2>&1 & server=$!
start_agent() {
  escher agent --endpoints "unix://$ESCHER_DIR/etcd/run/etcd.sock" --node gpu --state-dir "$dir/agent" --cdi-dir "$cdi" \
    --containerd private --allow-mount /dev >> "$dir/agent.log" 2>&1 & agent=$!
}
found=$EPOCHREALTIME
start_agent
for _ in $(seq 600); do escher gpus gpu 2>/dev/null | grep -q NVIDIA && break; sleep 0.05; done
say "the agent found, $(awk -v a="$EPOCHREALTIME" -v b="$found" 'BEGIN { printf "%.1f", a - b }') s after its start:"
escher gpus gpu -o wide || { cat "$dir/agent.log"; exit 1; }
escher image make --applets busybox escher.local/bb:1 "$(command -v busybox)" >/dev/null
gpu() { (cd "$dir/code" && escher run --workdir . "$@"); }

works() { gpu --gpu 1 escher.local/bb:1 -- /workdir/run 20 1 | tee "$dir/out" | grep -q 'on the card' || { cat "$dir/out"; return 1; }; cat "$dir/out"; }
check "a task with --gpu 1 computes" works
hidden() { ! gpu --prefer node/gpu escher.local/bb:1 -- /workdir/run 1 1 > "$dir/out" 2>&1; grep -q 'no device' "$dir/out"; }
check "a task without --gpu finds no device" hidden
refused() { ! gpu --prefer node/gpu --mount /dev:/hostdev escher.local/bb:1 -- sh -c 'head -c 1 /hostdev/nvidiactl' > "$dir/out" 2>&1; grep -qi 'not permitted' "$dir/out"; }
check "its mount of /dev does not open the card" refused
halves() {
  a=$(gpu -d --name a --gpu 0.5 escher.local/bb:1 -- /workdir/run 500 4) b=$(gpu -d --name b --gpu 0.5 escher.local/bb:1 -- /workdir/run 500 4)
  c=$(gpu -d --name c --gpu 1 escher.local/bb:1 -- /workdir/run 1 1)
  sleep 1; escher why c | tee "$dir/out"; escher ps
  grep -q "$a" "$dir/out" && grep -q "$b" "$dir/out" && escher wait a b c >/dev/null
}
check "two halves run at once, a whole one waits for both" halves
survives() {
  gpu -d --name s --gpu 1 escher.local/bb:1 -- /workdir/run 100 40 >/dev/null
  for _ in $(seq 100); do escher ps | grep -q '^s.*[Rr]unning' && break; sleep 0.1; done
  kill -9 "$agent"; wait "$agent" 2>/dev/null || true; start_agent
  escher wait s >/dev/null && escher logs s
}
check "a task survives its agent" survives

# Jobs that alternate: alone, after each other, and at once on halves of the card.
phases="${PHASES:-400 10 0.8}"
alternating() { # SHARE COUNT
  local t=$EPOCHREALTIME ids=()
  for i in $(seq "$2"); do gpu -d --name "p$1-$i" --gpu "$1" escher.local/bb:1 -- /workdir/run $phases >/dev/null; ids+=("p$1-$i"); done
  escher wait "${ids[@]}" >/dev/null || return 1
  for i in "${ids[@]}"; do escher logs "$i"; done
  say "$2 jobs with $1 gpu each, as long as all: $(awk -v a="$EPOCHREALTIME" -v b="$t" 'BEGIN { printf "%.1f", a - b }') s"
}
check "alternating jobs alone" alternating 1 1
escher rm p1-1 >/dev/null 2>&1 || true
check "alternating jobs after each other" alternating 1 2
check "alternating jobs at once" alternating 0.5 2
check "four alternating jobs at once" alternating 0.25 4
exit $failed
