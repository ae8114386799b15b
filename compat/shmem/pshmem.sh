#!/bin/sh
# The profiling interface: a second name, pshmem_..., of every function shmem_... that the library defines.
#
#   pshmem.sh NM SCRIPT HEADER OBJECT...
#
# Writes a linker script, with which both names are the same code, and the header that declares them. A profiler replaces
# the first names and calls the second; what it does not replace is the library's.
set -eu
nm=$1 script=$2 header=$3
shift 3
"$nm" -g --defined-only "$@" | awk '$2 == "T" && $3 ~ /^shmem_/ { print $3 }' | sort -u >"$script.names"
[ -s "$script.names" ] || { echo "pshmem.sh: the objects define no function shmem_..." >&2; exit 1; }
awk '{ print "p" $1 " = " $1 ";" }' "$script.names" >"$script"
{
  echo '/* Made by pshmem.sh: the second names of all functions, for profilers. */'
  echo '#ifndef ONSTREAM_PSHMEM_H'
  echo '#define ONSTREAM_PSHMEM_H'
  echo '#include "shmem.h"'
  echo '#ifdef __cplusplus'
  echo 'extern "C" {'
  echo '#endif'
  # Names of complex numbers are overloaded in C++, so they have no one type.
  awk '!/_complex[fd]_/ { print "extern __typeof__(" $1 ") p" $1 ";" }' "$script.names"
  echo '#ifdef __cplusplus'
  echo '}'
  echo '#endif'
  echo 'ONSTREAM_SHMEM_COMPLEX_REDUCTIONS(pshmem)'
  echo '#endif'
} >"$header"
