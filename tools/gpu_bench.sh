#!/usr/bin/env bash
# Measures on a machine with GPUs and writes the results as JSON and one page.
#
#   tools/gpu_bench.sh OUT        `make gpu-bench OUT=dir` builds first and then runs this
#
# OUT gets one JSON file a part, and page.html of all of them:
#   headline          the cases that a bar was stated for, with every peer found here, alternating
#   headline-N        the rings with all N GPUs, where there are more than two
#   startup           seconds and device memory of a world of 4 and of 8 ranks (GPUs are shared where they are fewer)
#   aggregation       operations one by one against all at once
#   ping-kernel-pong  driven by the host against ordered on the stream
#   one_sided         puts, gets, signals and barriers from kernels, streams and hosts; and a get from a busy rank
#   one_sided-N       the barriers with all N GPUs, where there are more than two
#   am                puts to registered buffers, and a stencil over them with and without bounce copies
#   collective        every kind with all GPUs, beside NCCL with and without registered buffers
#   collective-peers  the same beside NVSHMEM and PyTorch's symmetric memory too; only if PARTS asks for it
#   upc               UPC's calls on device memory, against copies and barriers
#   paths             size by path
#   programs          whole programs, with onstream and with NCCL in its place
#   sweep             1 B to 1 GiB with the peers, for the plots; only if there is time for it
# At the end a short table shows the bars and the figures reached. A part that fails, or for which no time is left, is
# named at the end and does not stop the others. Needs two GPUs and no network. Variables: BUILD (build folder),
# ROUNDS (starts of each program, at most), VS (peers), LIMIT_S (seconds in all, the build aside), FAST=1 (headline
# alone), PARTS (which, in which order), ONSTREAM_OFFLINE=0 (lets peers be installed from PyPI), QUICK=1 (shows that it works), DEVICE=host (the same without a GPU).
set -u -o pipefail
[[ $# == 1 && -n $1 ]] || { echo "usage: tools/gpu_bench.sh OUT" >&2; exit 2; }
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

build=${BUILD:-build}
rounds=${ROUNDS:-3}
vs=${VS-nccl,nvshmem,mpi}
grouping=none # the peer that can post many operations at once, if it is wanted
[[ $vs == *nccl* ]] && grouping=nccl
limit_s=${LIMIT_S:-600}
device=${DEVICE:-cuda}
export ONSTREAM_OFFLINE=${ONSTREAM_OFFLINE:-1}
sweep_s=90 # a sweep needs no less
start_s=30 # of one program's start: a peer that hangs is ended then
quick=()
[[ ${QUICK:-0} == 1 ]] && quick=(--quick)
failures=()
files=()
log=$(mktemp)
trap 'rm -f "$log"' EXIT

stop() {
  printf 'gpu_bench: %s\n' "$@" >&2
  exit 2
}

left_s() { echo $((limit_s - (SECONDS - began))); }

# part NAME SECONDS COMMAND...: one call of `onstream bench`, its result in OUT/NAME.json. Its output is shown if it fails.
part() {
  local name=$1 seconds=$2 left
  shift 2
  left=$(left_s)
  ((seconds > left)) && seconds=$left
  if ((seconds < 5)); then
    failures+=("$name: no time was left")
    return
  fi
  printf '== %s (at most %s s)\n' "$name" "$seconds"
  local before=$SECONDS
  if timeout --kill-after=5 "$seconds" .venv/bin/onstream bench "$@" --device "$device" --json "$out/$name.json" >"$log" 2>&1; then
    files+=("$out/$name.json")
    printf '   %s s\n' $((SECONDS - before))
  else
    failures+=("$name (status $?)")
    tail -n 25 "$log"
  fi
}

# Rounds end when the next would not fit into the budget, so that a part keeps its samples.
message() {
  local name=$1 seconds=$2 left
  shift 2
  left=$(left_s)
  ((seconds > left)) && seconds=$left
  part "$name" "$seconds" message --vs "$vs" --rounds "$rounds" --budget-s $((seconds * 3 / 4)) --limit-s "$start_s" \
    ${quick[@]+"${quick[@]}"} "$@"
}

run_part() {
  case $1 in
    headline) message headline 180 --headline ;; # three rounds of 40 s
    headline-all) ((gpus > 2)) && message "headline-$gpus" 60 --headline --ranks "$gpus" --modes ring,ring-plan ;;
    startup) part startup 30 startup --ranks 4,8 --samples 5 ${quick[@]+"${quick[@]}"} ;;
    aggregation) part aggregation 25 aggregation --vs "$grouping" --rounds 1 ${quick[@]+"${quick[@]}"} ;;
    ping-kernel-pong) part ping-kernel-pong 25 ping-kernel-pong ${quick[@]+"${quick[@]}"} ;;
    one_sided)
      part one_sided 60 one_sided --vs "$vs" --rounds "$rounds" --budget-s 45 --limit-s "$start_s" ${quick[@]+"${quick[@]}"}
      ((gpus > 2)) && part "one_sided-$gpus" 40 one_sided --ranks "$gpus" --vs "$vs" --rounds "$rounds" --budget-s 30 \
        --limit-s "$start_s" ${quick[@]+"${quick[@]}"}
      ;;
    am)
      local tori=2x1x1 # ranks that share a GPU take turns of it
      [[ $device == host || $gpus -ge 4 ]] && tori+=,2x2x1
      part am 60 am --tori "$tori" ${quick[@]+"${quick[@]}"}
      ;;
    collective)
      local peers=none
      [[ $vs == *nccl* ]] && peers=nccl,nccl-plain
      part collective 120 collective --ranks "$gpus" --vs "$peers" --rounds 2 --limit-s 60 ${quick[@]+"${quick[@]}"}
      ;;
    collective-peers)
      part collective-peers 300 collective --ranks "$gpus" --vs nccl,nccl-plain,nvshmem,torch --types float32,bfloat16 \
        --rounds 2 --limit-s 120 ${quick[@]+"${quick[@]}"}
      ;;
    upc) part upc 40 upc ${quick[@]+"${quick[@]}"} ;;
    paths) part paths 100 paths --limit-s 90 ${quick[@]+"${quick[@]}"} ;;
    programs) part programs 90 programs --vs "$grouping" --rounds "$rounds" ${quick[@]+"${quick[@]}"} ;;
    sweep)
      if (($(left_s) < sweep_s)); then
        printf '== sweep is left out: %s s are left, and it needs %s\n' "$(left_s)" "$sweep_s"
        return
      fi
      start_s=$(left_s)
      message sweep "$(left_s)" --sizes sweep --modes ping-pong,pipelined,ring,ring-plan --submissions eager,captured
      ;;
    *) stop "PARTS names '$1'; there are headline, headline-all, startup, aggregation, ping-kernel-pong, one_sided, am, collective, collective-peers, upc, paths, programs, sweep" ;;
  esac
}

gpus=2
if [[ $device == cuda ]]; then
  command -v nvidia-smi >/dev/null || stop "there is no nvidia-smi here, so no NVIDIA driver"
  gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)
  [[ $gpus -ge 2 ]] || stop "two GPUs are needed, this machine has $gpus"
fi
if [[ ! -x .venv/bin/onstream || ! -x $build/bench/bench_message ]]; then
  make build CUDA=1 BUILD="$build" || stop "the build failed"
fi

began=$SECONDS
parts=${PARTS-headline programs headline-all startup aggregation ping-kernel-pong one_sided am collective upc paths sweep}
[[ ${FAST:-0} == 1 ]] && parts=headline
for name in $parts; do
  run_part "$name"
done

printf '\n'
if [[ ${#files[@]} != 0 ]]; then
  .venv/bin/onstream bench report "${files[@]}" --html "$out/page.html" || failures+=("page")
fi
printf 'gpu_bench: %s s, written to %s\n' $((SECONDS - began)) "$out"
if [[ ${#failures[@]} != 0 ]]; then
  printf 'gpu_bench: failed: %s\n' "${failures[@]}"
  exit 1
fi
