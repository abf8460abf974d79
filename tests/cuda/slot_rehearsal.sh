#!/usr/bin/env bash
# shellcheck disable=SC2016,SC2034,SC2154 # what stand-ins expand; names of tests/bare.sh
# Runs every stage of tests/gpu_slot.sh in a bundle of the emulated device, unpacked elsewhere, and
# checks the files that must come back. `slot_rehearsal.sh` keeps OpenMPI out of PATH;
# `slot_rehearsal.sh bare` uses a bare Debian (tests/bare.sh), which has neither OpenMPI nor HDF5.
# Exit 77: there is no OpenMPI 4 to pack.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
build=${BUILD:-build} logs=${BUILD:-build}/slot failures=0 place='' tools='' child='' network=(env)
command -v orted >/dev/null || { echo "there is no OpenMPI 4 to put into a bundle"; exit 77; }
small='SLOT_REHEARSAL=yes EMULATED_MOST_THREADS=4e6'

hidden_place() {
  place=$(mktemp -d) && mkdir "$place/tools" || exit 1
  trap 'rm -rf "$place"' EXIT
  # Link everything except what a bare machine lacks.
  find /bin/ /usr/bin/ ! -type d ! -name 'mpi*' ! -name 'or[ts]e*' ! -name 'ompi*' ! -name 'prte*' ! -name 'ncu*' \
    ! -name 'nvidia-*' ! -name 'compute-san*' -exec ln -sft "$place/tools" {} +
}
bare_place() {
  source tests/bare.sh
  start_bare rehearse-slot
  bootstrap bookworm && unpack bookworm || exit 1
  inside root 'apt-get update -qq && apt-get install -y -qq --no-install-recommends python3' >"$logs/python.log" 2>&1 ||
    { tail "$logs/python.log"; exit 1; }
  place=$tree/root
}

# Runs LINE in the bundle's folder; `stand_ins`: with the programs that stand_in made.
call() { # LINE
  echo "rehearsal: $1"
  if [[ $tools ]]; then
    env -i PATH="$place/stand_ins:$tools" HOME="$place" "${network[@]}" bash -c "cd '$place/convoy-bundle' && $small $1" </dev/null
  else
    inside root "cd ~/convoy-bundle && export PATH=/root/stand_ins:\$PATH; ${network[*]} env $small $1"
  fi
}
# From here on `lo` is the only network, and it is down: the bundle must start it.
without_network() {
  network=(unshare --net)
  [[ $(id -u) = 0 ]] || network=(unshare --map-root-user --net)
  "${network[@]}" true 2>/dev/null && return
  echo "rehearsal: this system gives no network namespace, so the network stays"
  network=(env)
}
stand_in() { # NAME BODY
  mkdir -p "$place/stand_ins"
  printf '#!/bin/bash\n%s\n' "$2" >"$place/stand_ins/$1"
  chmod +x "$place/stand_ins/$1"
}

check() { # WHAT COMMAND...
  "${@:2}" && return
  echo "rehearsal: FAILED: $1"
  failures=$((failures + 1))
}
# Checks that the lines of stages.txt, without their seconds, are these in this order.
stages() { # FOLDER "NAME CODE"...
  local got
  got=$(sed 's/ [0-9]*$//' "$place/$1/stages.txt")
  check "stages of $1 are '${*:2}', not '${got//$'\n'/, }'" [ "$got" = "$(printf '%s\n' "${@:2}")" ]
}
files() { # FOLDER: at most 8, each below 16 MiB
  check "at most 8 files in $1" [ "$(find "$place/$1" -type f | wc -l)" -le 8 ]
  check "no file of 16 MiB in $1" [ -z "$(find "$place/$1" -type f -size +16383k)" ]
}
results() { # FOLDER NUMBER: lines of bench.jsonl
  check "$2 results in $1" python3 -I -c 'import json, sys
lines = [json.loads(text) for text in open(sys.argv[1])]
rates = [r["images_per_second"]["wall"] if "line" in r else r["seconds"] for r in lines]
sys.exit(len(lines) != int(sys.argv[2]) or min(rates) <= 0)' "$place/$1/bench.jsonl" "$2"
}
nothing_sleeps() {
  check "a process of a stage that was ended still runs" [ -z "$(grep -lz 917.25 /proc/[0-9]*/cmdline 2>/dev/null)" ]
}

run_A() {
  call 'OUT=../a ./run gpu-slot A'
  stages a 'properties 0' 'plan_probe 0' 'bench_resnet50_f16 0' 'new_kernels 0' 'captured 0' 'fused 0' \
    'plan_probe_bf16 0' 'golden_f32 0' 'placements 0' 'bench_resnet50_bf16 0' 'bench_airbench94 0' 'ops 0' 'op_gradients 0' 'steps 0' 'golden_low_by_kernels 0' \
    'golden_low_measured 0' 'two_ranks 0' 'resume 0' 'memcheck_images absent'
  results a 3
  files a
  check "device properties are in the log" grep -q '"totalGlobalMem":' "$place/a/log.txt"
  check "no test was skipped, and no filter without a test" [ "$(grep -cE '^\[  (SKIPPED \] |PASSED  \] 0 tests)' "$place/a/log.txt")" = 0 ]
  check "no plan of the probe is wrong, and each precision has several" \
    [ "$(grep -cE ', error [0-9.e-]+ of [a-z_]+, replays alike, built without a handle$' "$place/a/log.txt")" -ge 30 ]
  check "a profile by operation is in the log" grep -q '^conv weight gradient ' "$place/a/log.txt"
}

# A file that is not written keeps its date.
use_cache_again() {
  touch -d 2001-01-01 "$place"/a/convoy/plans-*.txt
  rm -r "$place/convoy-bundle/slot-plans" # sufficient alone, as call B shows
  call 'OUT=../again SLOT_CACHE=../a SLOT_ONLY="golden_low_measured bench_resnet50_f16" ./run gpu-slot A'
  stages again 'bench_resnet50_f16 0' 'golden_low_measured 0'
  check "no plan is timed again" [ "$(date -r "$(echo "$place"/again/convoy/plans-*.txt)" +%Y)" = 2001 ]
}

run_B_C_D() {
  call './run convert synthetic --images 8 --test-images 4 --size 32x32x3 --to ../images >/dev/null'
  stand_in compute-sanitizer '[[ $1 != --help ]] || { echo --kernel-name; exit; }
    while [[ $1 == --* ]]; do shift 2; done; exec "$@"'
  # Print times of launches like ncu; one of the three slowest is ours.
  stand_in ncu 'echo "ncu $*"; options=$*; while [[ $1 == --* ]]; do [[ $1 == --csv ]] || shift; shift; done; "$@" || exit
    [[ $options == *--csv* ]] || exit 0
    echo "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\""
    for i in 7,one 9,convoy::two 5,three 8,four 6,five; do echo "\"${i%,*}\",\"${i#*,}\",\"t\",\"ns\",\"${i%,*},000\""; done'
  call 'OUT=../b ./run gpu-slot B'
  stages b 'tuned_resnet50_f16 0' 'tuned_resnet50_bf16 0' 'torch_eager absent' 'torch_compiled absent' 'racecheck_norms 0'
  check "the plans of the call before are taken from the bundle" \
    [ "$(grep -c . "$(echo "$place"/b/convoy/plans-*.txt)")" -ge "$(grep -c . "$(echo "$place"/again/convoy/plans-*.txt)")" ]
  results b 2
  call 'OUT=../c SLOT_CIFAR10=../images ./run gpu-slot C'
  stages c 'airbench94_cifar10 0' 'pyramidnet_768 0' 'ncu_norms 0' 'ncu_convolutions 0'
  results c 6
  check "the slowest three that are not ours" [ "$(grep -o 'launch-skip [0-9]' "$place/c/log.txt" | tr -dc 0-9)" = 876 ]
  call 'OUT=../d ./run gpu-slot D "airbench94 bf16 2 --one-stream" "EMULATED_GPUS=1 airbench94 bf16 2"'
  stages d 'before_and_after 0'
  results d 4
  check "a ratio of medians" grep -q '^after / before, medians of 2: ' "$place/d/log.txt"
  for folder in b c d; do files $folder; done
}

# Uses a stand-in that ignores the signal and whose child is in a separate process group.
end_what_hangs() {
  stand_in nvidia-smi 'trap "" TERM; timeout 900 sleep 917.25'
  call 'OUT=../hung SLOT_LIMIT=40 SLOT_ONLY="properties resume memcheck_images" ./run gpu-slot A'
  stages hung 'properties 124' 'resume 0' 'memcheck_images 0'
  nothing_sleeps
  call 'OUT=../late SLOT_SECONDS=9 SLOT_ONLY="steps resume" ./run gpu-slot A'
  stages late 'steps skipped' 'resume skipped'
  call 'OUT=../cut timeout 8 ./run gpu-slot A'
  stages cut 'properties cut'
  nothing_sleeps
}

mkdir -p "$logs"
FOLDER_ONLY=yes BUILD=$build/emulated bash tests/cuda/bundle.sh || exit
if [[ ${1:-} = bare ]]; then bare_place; else hidden_place && tools=$place/tools; fi
cp -r "$build/emulated/convoy-bundle" "$place/" || exit
without_network
run_A
use_cache_again
run_B_C_D
end_what_hangs
if ((failures > 0)); then
  mkdir -p "$logs" && for folder in a again b c d hung late cut; do cp "$place/$folder/log.txt" "$logs/$folder.log" 2>/dev/null; done
  echo "the logs are in $logs"
fi
echo "rehearse-slot: $failures failed"
((failures == 0))
