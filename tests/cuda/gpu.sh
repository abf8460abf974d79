#!/usr/bin/env bash
# Runs everything that needs a GPU. `gpu.sh test` runs the tests that use one, except those of the
# largest models in low precision, whose plans take minutes to choose; `gpu.sh test --all` includes
# them. `--destructive` adds the test that breaks the GPU's context on purpose: never use it on a
# machine that others share. `gpu.sh sanitize TOOL SUBJECT` runs a part of the tests, and exits with
# 77 if there is no sanitizer. `gpu.sh bench` measures. Works in the repository and in an unpacked
# bundle.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${BUILD:-build}
if ! "$build/convoy" info | grep -q '^gpu *available'; then
  echo "no GPU here: $("$build/convoy" info | sed -n 's/^gpu *//p')" >&2
  [ "${1:-test}" = bench ] || echo "0 passed, 0 failed, everything skipped"
  exit 1
fi
"$build/convoy" info

test_gpu() {
  local log=$build/test-gpu.log code=0 filter='Cuda*:*/CudaDevice*:*/cuda*-*GoldenLow*pyramidnet*:*GoldenLow*_cifar*'
  while :; do
    case ${1:-} in
      --all) filter=${filter%%-*} ;;
      --destructive) export CONVOY_DESTRUCTIVE=1 ;;
      *) break ;;
    esac
    shift
  done
  "$build/convoy_tests" --gtest_filter="$filter" "$@" 2>&1 | tee "$log"
  code=${PIPESTATUS[0]}
  sanitize || [ $? = 77 ] || code=1
  count() { sed -n "s/^\[  $1  \] \([0-9]*\) test.*/\1/p" "$log" | head -n1; }
  local passed failed skipped
  passed=$(count PASSED) failed=$(count FAILED) skipped=$(count SKIPPED)
  echo "${passed:-0} passed, ${failed:-0} failed, ${skipped:-0} skipped"
  return "$code"
}

# Sanitizes the kernels that share memory between threads, and one whole step: all tools and
# subjects, or one TOOL and SUBJECT.
sanitize() {
  local sanitizer tool code=0 looked=0 wanted=$*
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
  [ -n "$sanitizer" ] || { echo "compute-sanitizer is not here: memcheck, racecheck and initcheck were not run"; return 77; }
  # Look for races and uninitialised reads only in our kernels, because we cannot fix cuDNN's.
  local ours=()
  [[ $("$sanitizer" --help 2>&1) != *--kernel-name* ]] || ours=(--kernel-name kernel_substring=convoy)
  look() {  # look TOOL NAME FILTER
    [ "$1 $2" = "${wanted:-$1 $2}" ] || return 0
    local found log=$build/sanitizer-$1-$2.log
    looked=$((looked + 1))
    timeout -k 5 150 "$sanitizer" --tool "$1" --error-exitcode 9 $([ "$1" = memcheck ] || echo "${ours[@]}") \
      "$build/convoy_tests" --gtest_filter="$3" >"$log" 2>&1
    found=$?
    case $found in
      0) echo "compute-sanitizer $1, $2: clean" ;;
      124) echo "compute-sanitizer $1, $2: not done after 150 s, so nothing is shown"; [ -z "$wanted" ] || code=124 ;;
      *) echo "compute-sanitizer $1, $2 found something: $log" >&2; tail -n 40 "$log" >&2; code=1 ;;
    esac
  }
  for tool in memcheck racecheck initcheck; do
    look "$tool" step 'CudaDevice.ANaNLeavesTheWeightsAlone'
    look "$tool" norms 'All/Ops.RepeatBitForBit/cuda_norm_*'
    look "$tool" pooling 'All/Ops.RepeatBitForBit/cuda_max*:All/Ops.RepeatBitForBit/cuda_average*'
    look "$tool" images 'All/ResampleOn.*/cuda:All/JitteredOn.*/cuda:All/MixedOn.*/cuda:All/ExactSumsOn.*/cuda'
    look "$tool" muon 'All/MuonOn.StepsAlongOrthogonalMatrices/cuda'
  done
  [ "$looked" -gt 0 ] || { echo "gpu.sh: there is no check '$wanted'" >&2; return 2; }
  return "$code"
}

case ${1:-test} in
  test) test_gpu "${@:2}" ;;
  sanitize) sanitize "${@:2}" ;;
  bench) "${PYTHON:-python3}" tests/peers/bench_gpu.py --build "$build" "${@:2}" ;;
  *) echo "usage: gpu.sh test|sanitize|bench" >&2; exit 2 ;;
esac
