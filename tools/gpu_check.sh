#!/usr/bin/env bash
# Runs every test on a machine with GPUs, where the tests' cuda rows are on, and ends with a short table.
#
#   tools/gpu_check.sh [options of pytest]        `make gpu-check` builds first and then runs this
#
# Native programs run whole, each in one process on one GPU, as many at a time as there are GPUs; those that look at
# several GPUs run after them, alone. Beside them pytest runs the tests without GPUs, in some processes that see none;
# then those with GPUs (the mark "gpu"), in GPU_SHARES processes with a share of the files each: most of a test's time
# is the start of its job's processes, but kernels that wait take turns of a GPU. A test of these that is skipped for
# want of any GPU or of CUDA fails the check: this machine is here to run it. One that needs more GPUs than there are is
# skipped, and says so. Needs no network. Variables: BUILD (build folder), LIMIT_S (for one native program),
# PYTEST_LIMIT_S (for each run of pytest), GPU_SHARES (2 unless told otherwise), TESTS (which of pytest's;
# tests/python/test_*.py unless told otherwise), MEMCHECK=1 (the native programs once more, the device tests under
# compute-sanitizer), PARTS (some of native, unseen and seen: pytest without and with GPUs; all unless told otherwise),
# WHEELS (a folder of wheels to use besides the packages of .venv, .whl unless told otherwise), LOGS (an empty folder,
# or a new one, where the logs are kept).
# Ends with status 0 if all passed, 1 if something failed, 2 if this machine or build cannot run the check.
set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

build=${BUILD:-build}
limit_s=${LIMIT_S:-240}
pytest_limit_s=${PYTEST_LIMIT_S:-1500}
gpu_shares=${GPU_SHARES:-2}
parts=${PARTS:-native unseen seen}
wheels=${WHEELS:-.whl}
python=.venv/bin/python

stop() {
  printf 'gpu_check: %s\n' "$@" >&2
  exit 2
}

if [[ -n ${LOGS:-} ]]; then
  logs=$LOGS
  mkdir -p "$logs" && logs=$(realpath "$logs") || exit 2
  [[ -z $(ls -A "$logs") ]] || stop "LOGS is $logs, which is not empty"
else
  logs=$(mktemp -d)
  trap 'rm -rf "$logs"' EXIT
fi

# Counts the lines of a file that match a pattern.
count() { grep -c -- "$1" "$2" || true; }

add_row() { # what passed failed skipped seconds note
  printf '%-28s %7s %7s %8s %7s  %s\n' "$@" >>"$logs/rows"
}

fail() { : >"$logs/failed"; }

check_machine() {
  command -v nvidia-smi >/dev/null || stop "there is no nvidia-smi here, so no NVIDIA driver"
  nvidia-smi --query-gpu=index,name,driver_version,memory.total --format=csv,noheader || stop "nvidia-smi failed"
  nvidia-smi topo -m 2>/dev/null | head -20
}

use_wheels() {
  compgen -G "$wheels/*.whl" >/dev/null || return 0
  local site="$logs/site"
  python3 -m pip install -q --no-index --no-deps --no-compile --target "$site" "$wheels"/*.whl ||
    stop "the wheels of $wheels cannot be installed"
  export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}"
}

check_build() {
  if [[ ! -x $python ]] || ! compgen -G "$build/tests/native/test_*" >/dev/null; then
    make build CUDA=1 BUILD="$build" || stop "the build failed"
  fi
  grep -q '^ONSTREAM_CUDA:.*=ON' "$build/CMakeCache.txt" ||
    stop "$build was built without CUDA; make build CUDA=1, with nvcc on PATH"
}

# Rows of a cuda device are there only if the Python module sees the GPUs. Many tests run the command line, whose
# libraries load each other only when they are used.
check_package() {
  local seen
  seen=$("$python" -c 'import onstream; print(sum(row.kind == "cuda" for row in onstream.devices()))') ||
    stop "$python cannot import onstream"
  "$python" -m onstream bench message --help >/dev/null || stop "the command line of $python lacks a package"
  [[ $seen == "$gpu_count" ]] || stop "onstream sees $seen of $gpu_count GPUs; is .venv's module that of $build?"
}

# run_native NAME PROGRAM COMMAND...: runs a native test program, says how it went and adds its row.
run_native() {
  local name=$1 log="$logs/$1.txt" status begin=$SECONDS note=""
  shift
  timeout --kill-after=10 "$limit_s" "$@" >"$log" 2>&1
  status=$?
  [[ $status == 124 || $status == 137 ]] && note="ended after $limit_s s, in or after: $(grep '^ok ' "$log" | tail -1)"
  [[ $status != 0 && $status != 77 && -z $note ]] && note="status $status"
  if grep -qE '^skipped cuda: |no cuda device' "$log"; then
    note="$note GPU rows were skipped"
    status=1
  fi
  [[ $status == 0 || $status == 77 ]] || fail
  {
    printf '\n== %s\n' "$name"
    grep -A 6 '^FAILED ' "$log" | grep -v '^ok '
    grep -v '^ok ' "$log" | tail -12
  } >"$log.told"
  cat "$log.told"
  add_row "$name" "$(count '^ok ' "$log")" "$(count '^FAILED ' "$log")" "$(count '^skipped ' "$log")" \
    $((SECONDS - begin)) "$note"
}

# Runs a program on the GPU of worker $WORKER, which runs one after the other.
run_native_on_one() {
  local gpus
  IFS=, read -ra gpus <<<"$visible"
  CUDA_VISIBLE_DEVICES=${gpus[$WORKER]} run_native "$(basename "$1")" "$1"
}

run_natives() {
  local source program alone=() others=()
  for source in $(find tests/native -name "*.cpp" -not -path "*/stand_ins/*" | sort); do
    program=$build/tests/native/test_$(basename "$source" .cpp)
    if [[ ! -x $program ]]; then
      add_row "$(basename "$program")" 0 0 0 0 "it was not built"
      fail
      continue
    fi
    case $(basename "$program") in
      # They look at several GPUs.
      test_cuda_device | test_ll128_lines | test_collective | test_one_sided_device | test_segments | test_teams | test_put_signal)
        alone+=("$program")
        ;;
      *) others+=("$program") ;;
    esac
  done
  export -f run_native run_native_on_one add_row count fail
  export logs limit_s visible
  printf '%s\n' "${others[@]}" |
    xargs -P "$gpu_count" --process-slot-var=WORKER -I {} bash -c "run_native_on_one {}" || fail
  for program in "${alone[@]}"; do run_native "$(basename "$program")" "$program"; done
  [[ ${MEMCHECK:-0} == 1 ]] || return 0
  command -v compute-sanitizer >/dev/null || stop "MEMCHECK=1, but there is no compute-sanitizer"
  local tests="device_conformance device_streams device_graphs device_words" test
  for test in $tests; do # they also try calls that CUDA refuses
    run_native "memcheck:${test#device_}" compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9 \
      "$build/tests/native/test_$test"
  done
}

# The sum of pytest's last lines, "3 failed, 120 passed, 4 skipped in 61.20s".
summary_of() { # words logs...
  local words=$1
  shift
  grep -hE '^=* ?[0-9]+ (passed|failed|skipped|error|deselected)' "$@" | grep -oE "[0-9]+ ($words)" |
    awk '{ n += $1 } END { print n + 0 }'
}

# Runs pytest with options and files. Interrupted, it still shows the failures until then.
pytest() { # log options...
  local log=$1 status
  shift
  ONSTREAM_BUILD="$build" timeout --signal=INT --kill-after=20 "$pytest_limit_s" \
    "$python" -m pytest -q -ra -p no:cacheprovider "$@" >"$log" 2>&1
  status=$?
  [[ $status == 124 || $status == 137 ]] && echo "ended after $pytest_limit_s s" >>"$log"
  [[ $status == 0 || $status == 5 ]] || fail # 5: none of these tests is of this kind
}

add_pytest_row() { # what seconds note logs...
  local what=$1 seconds=$2 note=$3
  shift 3
  add_row "$what" "$(summary_of passed "$@")" "$(summary_of 'failed|error' "$@")" "$(summary_of skipped "$@")" \
    "$seconds" "$note$(grep -hE '^ended after|^!+ ' "$@" | sort -u | head -1)"
}

# pytest_shares LOGS SHARES OPTIONS...: some runs of pytest at once, each with its share of the files, and a log of each.
pytest_shares() {
  local logs_of=$1 shares=$2 share
  shift 2
  for ((share = 0; share < shares && share < ${#tests[@]}; share++)); do
    local own=() i
    for ((i = share; i < ${#tests[@]}; i += shares)); do own+=("${tests[i]}"); done
    pytest "$logs/$logs_of.$share" "$@" "${options[@]}" "${own[@]}" &
  done
  wait
}

# Runs the tests without GPUs, in processes that see none: one for every eight cores.
run_pytest_unseen() {
  local begin=$SECONDS
  CUDA_VISIBLE_DEVICES="" pytest_shares unseen $((($(nproc) + 7) / 8)) -m "not gpu and not install"
  printf '\n== pytest, what uses no GPU\n'
  grep -hE '^(FAILED|ERROR|E  |ended after)|^[0-9]+ (passed|failed)' "$logs"/unseen.* | cut -c1-300 | tail -60
  add_pytest_row "pytest without GPUs" $((SECONDS - begin)) "" "$logs"/unseen.*
}

run_pytest_seen() {
  local begin=$SECONDS note="" log
  pytest_shares seen "$gpu_shares" -m gpu
  printf '\n== pytest, what uses GPUs\n'
  for log in "$logs"/seen.*; do tail -40 "$log"; done
  if grep -hE '^SKIPPED' "$logs"/seen.* | grep -qiE 'no cuda device|no GPU|without CUDA|no CUDA'; then
    note="GPU rows were skipped "
    fail
  fi
  if [[ $(summary_of passed "$logs"/seen.*) == 0 ]]; then
    note="none passed "
    fail
  fi
  add_pytest_row "pytest with GPUs" $((SECONDS - begin)) "$note" "$logs"/seen.*
}

check_machine
use_wheels
check_build
visible=${CUDA_VISIBLE_DEVICES:-$(nvidia-smi --query-gpu=index --format=csv,noheader | paste -sd ,)}
gpu_count=$(awk -F , '{ print NF }' <<<"$visible")
options=("$@")
if [[ -n ${TESTS:-} ]]; then
  read -ra tests <<<"$TESTS"
else
  tests=()
  for file in tests/python/test_*.py; do
    [[ $file == */test_native.py ]] || tests+=("$file")
  done
fi
for part in $parts; do
  [[ $part == native || $part == unseen || $part == seen ]] || stop "PARTS names '$part'; there are native, unseen, seen"
done
has() { [[ " $parts " == *" $1 "* ]]; }
if has unseen || has seen; then check_package; fi
unseen=""
if has unseen; then
  run_pytest_unseen &
  unseen=$!
fi
if has native; then run_natives; fi
[[ -z $unseen ]] || wait "$unseen" || fail
if has seen; then run_pytest_seen; fi

printf '\n%-28s %7s %7s %8s %7s\n' what passed failed skipped seconds
cat "$logs/rows"
if [[ -e $logs/failed ]]; then
  printf 'gpu_check: FAILED\n'
  exit 1
fi
printf 'gpu_check: all passed on %s\n' "$(nvidia-smi --query-gpu=name --format=csv,noheader | sort | uniq -c | xargs)"
