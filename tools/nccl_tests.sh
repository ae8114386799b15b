#!/usr/bin/env bash
# Builds NVIDIA's nccl-tests from a checkout against onstream's NCCL interface, runs them with data checking, and ends with
# a short table: one row a program and mode.
#
#   tools/nccl_tests.sh SRC OUT        SRC: a checkout of github.com/NVIDIA/nccl-tests; OUT: a folder for all that is made
#
# Modes: ranks of one thread (-g), ranks as threads (-t), captured (-G), registered (-R 2), and, with MPI_HOME, processes.
# Variables: BUILD (onstream's build folder), GPUS (2), SIZES ("-b 8 -e 16M -f 8"), LIMIT_S (for one run), CUDA_HOME,
# ARCH (of the GPUs; empty: asks nvidia-smi), NCCL_INCLUDE (a folder with another nccl.h to compile against, as NVIDIA's:
# the programs still run with onstream's library), ONLY (a pattern of programs), COMPILE_ONLY=1.
# Ends with status 0 if all passed, 1 if something failed, 2 if this machine or build cannot run them.
set -u -o pipefail
[[ $# == 2 ]] || { sed -n '2,12p' "${BASH_SOURCE[0]}" >&2; exit 2; }
source_folder=$(realpath "$1") || exit 2
mkdir -p "$2" || exit 2
out=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

build=$(realpath "${BUILD:-build}")
gpus=${GPUS:-2}
sizes=${SIZES:--b 8 -e 16M -f 8}
limit_s=${LIMIT_S:-240}
only=${ONLY:-.}
cuda_home=${CUDA_HOME:-/usr/local/cuda}
home=$out/home
programs=$out/build
rows=()
failed=0

stop() {
  printf 'nccl_tests: %s\n' "$@" >&2
  exit 2
}

# Makes the folder that the tests take for an installation of NCCL.
stage() {
  local drop_in=$build/compat/nccl/drop_in
  [[ -f $drop_in/libnccl.so.2 ]] || stop "there is no libnccl.so.2 in $drop_in; build onstream first (make build)"
  [[ -f $source_folder/src/common.cu ]] || stop "$source_folder is no checkout of nccl-tests"
  rm -rf "$home"
  mkdir -p "$home/lib"
  ln -s "$(realpath "${NCCL_INCLUDE:-compat/nccl/include}")" "$home/include"
  ln -s "$drop_in/libnccl.so.2" "$home/lib/libnccl.so.2"
  ln -s libnccl.so.2 "$home/lib/libnccl.so"
}

architecture() {
  local found=${ARCH:-$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .)}
  printf '%s' "${found:-90}"
}

compile() { # MPI folder
  local arch
  arch=$(architecture)
  local options=(NCCL_HOME="$home" CUDA_HOME="$cuda_home" NVCC="$cuda_home/bin/nvcc" BUILDDIR="$programs$1")
  [[ $1 == -mpi ]] && options+=(MPI=1 MPI_HOME="$MPI_HOME")
  NVCC_GENCODE="-gencode=arch=compute_$arch,code=sm_$arch" \
    make -C "$source_folder" -j "${JOBS:-$(nproc)}" "${options[@]}" >"$out/make$1.txt" 2>&1 ||
    { tail -30 "$out/make$1.txt" >&2; stop "nccl-tests did not compile; $out/make$1.txt has it all"; }
}

# The value behind "# NAME :" in a log.
told() { grep -E "^# $1 *:" "$2" | tail -1 | sed 's/^[^:]*: *//'; }

run_one() { # program mode command...
  local name=$1 mode=$2 log="$out/$1-$2.txt" status begin=$SECONDS wrong bandwidth checked
  shift 2
  LD_LIBRARY_PATH="$home/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    timeout --kill-after=10 "$limit_s" "$@" >"$log" 2>&1
  status=$?
  wrong=$(told 'Out of bounds values' "$log")
  bandwidth=$(told 'Avg bus bandwidth' "$log")
  checked=$(grep -cE '^ +[0-9]+ +[0-9]+ ' "$log")
  [[ $status == 0 && $wrong == "0 OK" && $checked -gt 0 ]] || failed=1
  rows+=("$(printf '%-16s %-10s %7s %8s %14s %10s %7s' "$name" "$mode" "$status" "$checked" "${wrong:--}" "${bandwidth:--}" \
    $((SECONDS - begin)))")
  printf '%s\n' "${rows[-1]}"
  [[ $status == 0 ]] || tail -5 "$log"
}

run_modes() { # program, then its own options
  local name=$1 folder=$programs
  shift
  [[ $name =~ $only ]] || return 0
  local common=("$folder/${name}_perf")
  # shellcheck disable=SC2206  # several words
  common+=($sizes -n 5 -w 1 -c 1 "$@")
  run_one "$name" threads "${common[@]}" -t "$gpus" -g 1
  if [[ $name == hypercube && $gpus -gt 2 ]]; then
    # All its steps are one group then, though each sends the data that the one before received.
    rows+=("$(printf '%-16s %-10s %7s' "$name" "one thread" "not run")")
  else
    run_one "$name" group "${common[@]}" -g "$gpus"
    run_one "$name" captured "${common[@]}" -g "$gpus" -G 2
    run_one "$name" registered "${common[@]}" -g "$gpus" -R 2
  fi
  [[ -n ${MPI_HOME:-} ]] || return 0
  common[0]="$programs-mpi/${name}_perf"
  run_one "$name" processes "$MPI_HOME/bin/mpiexec" -n "$gpus" "${common[@]}" -g 1
}

stage
compile ""
[[ -z ${MPI_HOME:-} ]] || compile -mpi
if [[ ${COMPILE_ONLY:-0} == 1 ]]; then
  ls "$programs"/*_perf
  exit 0
fi
command -v nvidia-smi >/dev/null || stop "there is no nvidia-smi here, so no NVIDIA driver"
for name in all_reduce reduce reduce_scatter; do run_modes "$name" -d all -o all; done
for name in broadcast all_gather alltoall gather scatter sendrecv hypercube; do run_modes "$name" -d all; done

printf '\n%-16s %-10s %7s %8s %14s %10s %7s\n' program mode status lines wrong "GB/s" seconds
printf '%s\n' "${rows[@]}"
if [[ $failed == 0 ]]; then
  printf '\nnccl_tests: all passed\n'
else
  printf '\nnccl_tests: something failed; the logs are in %s\n' "$out"
fi
exit $failed
