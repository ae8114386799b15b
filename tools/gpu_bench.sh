#!/usr/bin/env bash
# Measures messages between two GPUs and writes the results as JSON.
#
#   tools/gpu_bench.sh OUT        `make gpu-bench OUT=dir` builds first and then runs this
#
# OUT gets message-cuda.json (every mode, submission and size, the tuner's paths; what the bars are judged on) and one
# message-cuda-PATH.json for each path forced, captured only. A path that fails is named at the end and does not stop the
# others. Needs two GPUs and no network. Variables: BUILD (build folder), ROUNDS (starts of each program), PATHS (which
# paths to force; empty for none), LIMIT_S (for one call of the bench), QUICK=1 (shows that it works).
set -u -o pipefail
[[ $# == 1 && -n $1 ]] || { echo "usage: tools/gpu_bench.sh OUT" >&2; exit 2; }
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

build=${BUILD:-build}
rounds=${ROUNDS:-5}
paths=${PATHS-ll store load copy}
limit_s=${LIMIT_S:-300}
failures=()

stop() {
  printf 'gpu_bench: %s\n' "$@" >&2
  exit 2
}

# bench NAME OPTIONS...: one call of the bench, its result in OUT/NAME.json.
bench() {
  local name=$1 quick=()
  shift
  [[ ${QUICK:-0} == 1 ]] && quick=(--quick)
  printf '\n== %s\n' "$name"
  ONSTREAM_BUILD="$build" timeout --kill-after=10 "$limit_s" .venv/bin/onstream bench message --device cuda --rounds "$rounds" \
    ${quick[@]+"${quick[@]}"} --json "$out/$name.json" "$@" || failures+=("$name (status $?)")
}

command -v nvidia-smi >/dev/null || stop "there is no nvidia-smi here, so no NVIDIA driver"
gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)
[[ $gpus -ge 2 ]] || stop "two GPUs are needed, this machine has $gpus"
if [[ ! -x .venv/bin/onstream || ! -x $build/bench/bench_message ]]; then
  make build CUDA=1 BUILD="$build" || stop "the build failed"
fi

bench message-cuda
for path in $paths; do
  sizes=8,64KiB,1MiB,16MiB,256MiB
  [[ $path == ll ]] && sizes=8,1KiB,8KiB
  bench "message-cuda-$path" --path "$path" --sizes "$sizes" --modes ping-pong,pipelined --submissions captured
done

printf '\n'
if [[ ${#failures[@]} != 0 ]]; then
  printf 'gpu_bench: failed: %s\n' "${failures[@]}"
  exit 1
fi
printf 'gpu_bench: written to %s\n' "$out"
