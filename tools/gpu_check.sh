#!/usr/bin/env bash
# Runs every test on a machine with GPUs, where the tests' cuda rows are on, and ends with a short table.
#
#   tools/gpu_check.sh [options of pytest]        `make gpu-check` builds first and then runs this
#
# Native programs run whole, each in one process; then pytest runs the rest. A test that is skipped for want of a GPU or
# of CUDA fails the check: this machine is here to run it. Needs no network. Variables: BUILD (build folder), LIMIT_S (for
# one native program), PYTEST_LIMIT_S, TESTS (which of pytest's; tests/python unless told otherwise), MEMCHECK=1 (the
# native programs once more, the device tests under compute-sanitizer), PARTS (native, pytest, or both), WHEELS (a folder
# of wheels to use besides the packages of .venv, .whl unless told otherwise).
# Ends with status 0 if all passed, 1 if something failed, 2 if this machine or build cannot run the check.
set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

build=${BUILD:-build}
limit_s=${LIMIT_S:-240}
pytest_limit_s=${PYTEST_LIMIT_S:-540}
parts=${PARTS:-native pytest}
wheels=${WHEELS:-.whl}
python=.venv/bin/python
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
rows=()
failed=0

stop() {
  printf 'gpu_check: %s\n' "$@" >&2
  exit 2
}

# Counts the lines of a file that match a pattern.
count() { grep -c -- "$1" "$2" || true; }

add_row() { # what passed failed skipped seconds note
  rows+=("$(printf '%-28s %7s %7s %8s %7s  %s' "$@")")
}

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

# run_native NAME PROGRAM COMMAND...: runs a native test program and adds its row.
run_native() {
  local name=$1 log="$logs/$1.txt" status begin=$SECONDS note=""
  shift
  printf '\n== %s\n' "$name"
  timeout --kill-after=10 "$limit_s" "$@" >"$log" 2>&1
  status=$?
  grep -A 6 '^FAILED ' "$log" | grep -v '^ok '
  grep -v '^ok ' "$log" | tail -12
  [[ $status == 124 || $status == 137 ]] && note="ended after $limit_s s, in or after: $(grep '^ok ' "$log" | tail -1)"
  [[ $status != 0 && $status != 77 && -z $note ]] && note="status $status"
  if grep -q 'no cuda device' "$log"; then
    note="$note GPU rows were skipped"
    status=1
  fi
  [[ $status == 0 || $status == 77 ]] || failed=1
  add_row "$name" "$(count '^ok ' "$log")" "$(count '^FAILED ' "$log")" "$(count '^skipped ' "$log")" \
    $((SECONDS - begin)) "$note"
}

run_natives() {
  local program
  for program in "$build"/tests/native/test_*; do
    [[ -f $program && -x $program ]] || continue
    run_native "$(basename "$program")" "$program"
  done
  [[ ${MEMCHECK:-0} == 1 ]] || return 0
  command -v compute-sanitizer >/dev/null || stop "MEMCHECK=1, but there is no compute-sanitizer"
  run_native memcheck:device compute-sanitizer --tool memcheck --error-exitcode 9 "$build/tests/native/test_device_conformance"
  run_native memcheck:streams compute-sanitizer --tool memcheck --error-exitcode 9 "$build/tests/native/test_device_streams"
  run_native memcheck:words compute-sanitizer --tool memcheck --error-exitcode 9 "$build/tests/native/test_device_words"
}

# The numbers of pytest's last line, "3 failed, 120 passed, 4 skipped in 61.20s".
summary_of() { # words log
  grep -E '^=* ?[0-9]+ (passed|failed|skipped|error)' "$2" | tail -1 | grep -oE "[0-9]+ ($1)" | awk '{ n += $1 } END { print n + 0 }'
}

run_pytest() {
  local log="$logs/pytest.txt" status begin=$SECONDS note=""
  printf '\n== pytest\n'
  # Interrupted, pytest still says what failed until then.
  ONSTREAM_BUILD="$build" timeout --signal=INT --kill-after=20 "$pytest_limit_s" \
    "$python" -m pytest -q -ra ${TESTS:-tests/python} --ignore tests/python/test_native.py "$@" >"$log" 2>&1
  status=$?
  tail -60 "$log"
  [[ $status == 124 || $status == 137 ]] && note="ended after $pytest_limit_s s"
  [[ $status != 0 && -z $note ]] && note="status $status"
  if grep -E '^SKIPPED' "$log" | grep -qiE 'no cuda device|no GPU|built without CUDA'; then
    note="$note GPU rows were skipped"
    status=1
  fi
  [[ $status == 0 ]] || failed=1
  add_row pytest "$(summary_of passed "$log")" "$(summary_of 'failed|error' "$log")" "$(summary_of skipped "$log")" \
    $((SECONDS - begin)) "$note"
}

check_machine
use_wheels
check_build
[[ $parts == *native* ]] && run_natives
[[ $parts == *pytest* ]] && run_pytest "$@"
[[ ${#rows[@]} != 0 ]] || stop "PARTS is '$parts'; there are native, pytest"

printf '\n%-28s %7s %7s %8s %7s\n' what passed failed skipped seconds
printf '%s\n' "${rows[@]}"
if [[ $failed == 0 ]]; then
  printf 'gpu_check: all passed on %s\n' "$(nvidia-smi --query-gpu=name --format=csv,noheader | sort | uniq -c | xargs)"
else
  printf 'gpu_check: FAILED\n'
fi
exit "$failed"
