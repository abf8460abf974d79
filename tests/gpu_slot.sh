#!/usr/bin/env bash
# Tests and measures the CUDA backend on a GPU machine that is there for half an hour, in calls of
# at most ten minutes. In the unpacked bundle: `OUT=folder ./run gpu-slot A`, then B, C and D
# 'BEFORE' 'AFTER', which are two lines of tests/peers/bench_gpu.py. The stages that tell most come
# first. Each stage has a time limit, and a call has SLOT_SECONDS (540 for A, 420 for the others).
# A, B and C take 23 minutes together; the start and the transfers take the rest. $OUT (default:
# slot) always has the results until now: log.txt, stages.txt with `name code seconds` per stage,
# bench.jsonl, the clocks in dmon.txt, and the times of cuDNN's plans. The next call in the same
# unpacked bundle starts with those times. In another folder it takes them from $OUT or from
# SLOT_CACHE=folder.
# SLOT_CIFAR10: a data set, or what `convoy convert cifar10` takes; without it made-up images time
# airbench94. SLOT_ONLY="name name": only these stages. SLOT_LIMIT: seconds that no stage may
# exceed. SLOT_REHEARSAL: models and steps of a device that is not there.
set -uo pipefail
script=$(readlink -f "${BASH_SOURCE[0]}")
here=$(dirname "$(dirname "$script")")
# A bundle's programs find their libraries by its `run`.
[[ ! -x $here/run || -n ${CONVOY_HOST_LIBRARY_PATH+set} ]] || exec "$here/run" gpu-slot "$@"
export OUT=${OUT:-$here/slot} BUILD=${BUILD:-$here/build}
mkdir -p "$OUT/convoy" || exit 1
OUT=$(readlink -f "$OUT") BUILD=$(readlink -f "$BUILD")
for name in SLOT_CACHE SLOT_CIFAR10; do
  [[ -z ${!name:-} ]] || export "$name=$(readlink -f "${!name}")"
done
cd "$here" || exit 1
[[ ${1:-} = A ]] && seconds=540 || seconds=420
log=$OUT/log.txt python=${PYTHON:-python3} rehearsal=${SLOT_REHEARSAL:-} child='' current='' start=0
# Limits are made for a GPU. A rehearsal shows that each stage runs, on processors of any speed.
slower=1
[[ -z $rehearsal ]] || slower=6
budget=${SLOT_SECONDS:-$((seconds * slower))}
plans=$here/slot-plans # what this machine keeps for the next call
least=10               # seconds: no stage begins with less
kept=$((256 << 10))    # bytes of the log, of each stage: all stages together stay below 16 MiB

# ---- one stage ----------------------------------------------------------------------------------
record() { # NAME CODE SECONDS
  echo "$1 $2 $3" >>"$OUT/stages.txt"
  echo "$1 $2 $3"
}

# Kills the processes that a stage left. Each stage has a separate session, because tests put the
# processes that they start into process groups.
end_session() { # ID
  local file line session
  for file in /proc/[0-9]*/stat; do
    read -r line 2>/dev/null <"$file" || continue
    read -r _ _ _ session _ <<<"${line##*) }"
    [[ $session != "$1" ]] || kill -KILL "$(basename "$(dirname "$file")")" 2>/dev/null
  done
}

# Keeps the first and the last of what a stage wrote from BYTE of the log on.
shorten_log() { # BYTE
  local size
  size=$(stat -c %s "$log")
  ((size - $1 > kept)) || return 0
  {
    head -c $(($1 + kept / 4)) "$log"
    printf '\n… %s bytes left out …\n' $((size - $1 - kept))
    tail -c $((kept * 3 / 4)) "$log"
  } >"$log.part" && mv "$log.part" "$log"
}

# Runs COMMAND for at most LIMIT seconds. Its code is 77 where what it needs is absent.
stage() { # NAME LIMIT COMMAND...
  local name=$1 limit=$(($2 * slower)) code=0 began left
  shift 2
  start=$SECONDS
  [[ " ${SLOT_ONLY:-$name} " == *" $name "* ]] || return 0
  left=$((budget - SECONDS))
  ((left >= least)) || { record "$name" skipped 0; return; }
  for most in "$left" "${SLOT_LIMIT:-$limit}"; do ((limit <= most)) || limit=$most; done
  began=$(stat -c %s "$log")
  printf '\n== %s, at most %s s: %s\n' "$name" "$limit" "$*" >>"$log"
  current=$name
  setsid timeout -k 5 "$limit" "$@" </dev/null >>"$log" 2>&1 &
  child=$!
  wait "$child" || code=$?
  end_session "$child"
  child=''
  ((code != 137 || SECONDS - start < limit)) || code=124 # it did not end when told to
  ((code != 77)) || code=absent
  shorten_log "$began"
  record "$name" "$code" $((SECONDS - start))
}

leave() {
  if [[ -n $child ]]; then
    { end_session "$child"; wait "$child"; } 2>/dev/null # bash would say that it was killed
    record "$current" cut $((SECONDS - start))
  fi
  [[ -z $keeper ]] || { end_session "$keeper"; wait "$keeper"; } 2>/dev/null
  mkdir -p "$plans" && cp -p "$OUT"/convoy/plans-*.txt "$plans/" 2>/dev/null
  rm -rf "$work"
}

# ---- what stages run ----------------------------------------------------------------------------
# The larger models take minutes on a device that is not there; of single ops, some will do.
run_tests() { run_body "$1" "$2" some_tests "$3${rehearsal:+-*resnet*:*cuda_conv*}"; } # NAME LIMIT FILTER
run_body() { stage "$1" "$2" bash "$script" body "${@:3}"; } # NAME LIMIT FUNCTION...

some_tests() { # FILTER
  "$BUILD/convoy_tests" --gtest_color=no --gtest_filter="$1" | tee "$work/tests" || return
  ! grep -q '^\[  PASSED  \] 0 tests' "$work/tests" || return 77 # all were skipped: there is no GPU
}
# Tests that use one processor each, by four programs side by side.
shard_tests() { run_body "$1" "$2" four_programs "$3${rehearsal:+-*resnet*:*cuda_conv*}"; } # NAME LIMIT FILTER
four_programs() { # FILTER
  local i code=0 ids=()
  for i in 0 1 2 3; do
    GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=$i "$BUILD/convoy_tests" --gtest_color=no --gtest_filter="$1" >"$work/shard-$i" 2>&1 &
    ids+=($!)
  done
  for i in 0 1 2 3; do wait "${ids[i]}" || code=$?; done
  cat "$work"/shard-?
  ((code == 0)) || return "$code"
  [[ $(cat "$work"/shard-? | grep -c '^\[  PASSED  \] 0 tests') != 4 ]] || return 77 # there is no GPU
}

properties() {
  nproc
  grep MemTotal /proc/meminfo
  ! command -v nvidia-smi || nvidia-smi
  "$python" -I -c 'import sys; print(sys.version)'
  "$BUILD/convoy" info | tee "$work/info"
  grep -q '^gpu *available' "$work/info" && "$BUILD/convoy_tests" --gtest_color=no --gtest_filter='CudaChips.*'
}

# Each kind of cuDNN's plans alone: whether it runs, is right, and how fast. Batches of 64 keep the
# checks on the host short.
plan_probe() { # PRECISION
  local model=(resnet50 --batch-per-rank 64)
  [[ -z $rehearsal ]] || model=(resnet18 --image-size 16x16x3 --batch-per-rank 2)
  "$BUILD/convoy" info --run --precision "$1" --plans "${model[@]}"
}

# In a rehearsal: the same precision and options, of the fastest model.
line() { # MODEL PRECISION BATCH [OPTION...]
  [[ -z $rehearsal ]] && echo "$*" || echo "airbench94 $2 2 ${*:4}"
}
bench() { # NAME LIMIT STEPS LINE [OPTION OF bench_gpu.py]...
  local steps=(--warmup 20 --steps "$3" --profile-steps 5)
  [[ -z $rehearsal ]] || steps=(--warmup 2 --steps 3 --profile-steps 1)
  stage "$1" "$2" "$python" tests/peers/bench_gpu.py --build "$BUILD" --jsonl "$OUT/bench.jsonl" \
    --budget $(($2 * slower)) \
    "${steps[@]}" --line "$4" "${@:5}"
}
torch() { # eager|compile LINE SECONDS
  unset XDG_CACHE_HOME # what it keeps there is not to come back
  LD_LIBRARY_PATH=${CONVOY_HOST_LIBRARY_PATH-${LD_LIBRARY_PATH:-}} "$python" -c 'import torch; torch.zeros(1, device="cuda")' ||
    { echo "no PyTorch that runs on this GPU"; return 77; }
  "$python" tests/peers/bench_gpu.py --no-convoy --peer "$1" --budget "$3" --jsonl "$OUT/bench.jsonl" --line "$2"
}

# Checks that images in the device's memory and in the host's give the same losses. A stream has
# another order, so it is compared with the same stream on the CPU, which rounds sums in another
# order.
placements() {
  local run
  "$BUILD/convoy" convert synthetic --images 2000 --test-images 100 --size 34x34x1 --to "$work/placed" || return
  for run in cuda-replicate cuda-node cuda-stream cpu-stream; do
    "$BUILD/convoy" train --device "${run%-*}" --model mnist-linear --lr 0.01 --data "$work/placed" --image-size 28 \
      --random-resized-crop --flip --batch-size 100 --epochs 2 --log-interval 1 --data-placement "${run#*-}" \
      --output "$work/$run" || return
  done
  "$python" -I - "$work" <<'PYTHON'
import json, sys
def losses(run):
    rows = [json.loads(text) for text in open(f"{sys.argv[1]}/{run}/metrics.jsonl")]
    rows = [(r["kind"], r["step"], r["loss"]) for r in rows if r["kind"] in ("train", "eval")]
    return [loss for kind, step, loss in sorted(rows)]
same = losses("cuda-node") == losses("cuda-replicate")
far = max(abs(a / b - 1) for a, b in zip(losses("cuda-stream"), losses("cpu-stream"), strict=True))
print(f'{len(losses("cuda-node"))} losses; node equals replicate: {same}; stream against the CPU: {far:.1e}')
sys.exit(len(losses("cuda-stream")) != 42 or not same or far > 1e-3)
PYTHON
}

# Where there is no CIFAR-10, made-up images of its size: the seconds are those of a training, the
# accuracy says nothing.
cifar10() { # SEED...
  local seed short=() data=${SLOT_CIFAR10:-} size=(--images 50000 --test-images 10000)
  if [[ -z $data ]]; then
    [[ -z $rehearsal ]] || size=(--images 8 --test-images 4)
    "$BUILD/convoy" convert synthetic "${size[@]}" --size 32x32x3 --to "$work/data" || return
    data=$work/data
  elif [[ ! -e $data/manifest.json ]]; then
    "$BUILD/convoy" convert cifar10 --from "$data" --to "$work/data" || return
    data=$work/data
  fi
  [[ -z $rehearsal ]] || short=(--batch-size 4 --epochs 1)
  for seed in "$@"; do
    "$BUILD/convoy" train --config input/recipes/airbench94.cfg --data "$data" --device cuda --precision bf16 --tta full \
      --seed "$seed" --output "$work/seed-$seed" --checkpoint-every none ${short[@]+"${short[@]}"} || return
    "$python" -I - "$work/seed-$seed/metrics.jsonl" "$seed" "${SLOT_CIFAR10:+cifar10}" >>"$OUT/bench.jsonl" <<'PYTHON' || return
import json, sys
rows = [json.loads(text) for text in open(sys.argv[1])]
last = {kind: [r for r in rows if r["kind"] == kind][-1] for kind in ("eval", "event")}
print(json.dumps({"train": "airbench94", "data": sys.argv[3], "seed": int(sys.argv[2]), "accuracy": last["eval"]["accuracy"],
                  "loss": last["eval"]["loss"], "seconds": last["event"]["time"] - rows[0]["time"]}))
PYTHON
  done
}

# One step of LINE under ncu. It and what it loads are the machine's; `run` sets ours.
under_ncu() { # OPTION OF ncu... -- OPTION OF convoy bench...
  local ncu options=() convoy=("$BUILD/convoy")
  ncu=$(command -v ncu || ls /usr/local/cuda/bin/ncu 2>/dev/null) || { echo "no ncu here"; return 77; }
  [[ ! -x run ]] || convoy=("$here/run")
  while [[ $1 != -- ]]; do options+=("$1") && shift; done
  LD_LIBRARY_PATH=${CONVOY_HOST_LIBRARY_PATH-${LD_LIBRARY_PATH:-}} "$ncu" --clock-control none --target-processes all "${options[@]}" "${convoy[@]}" \
    bench --device cuda --tuning quick --no-graph --warmup 1 --steps 1 --profile-steps 0 "${@:2}"
}
step_of_resnet50() {
  [[ -z $rehearsal ]] && echo "--model resnet50 --image-size 224x224x3 --classes 1000 --precision f16 --batch-per-rank 256" ||
    echo "--model airbench94 --precision f16 --batch-per-rank 2"
}
# A step's first launches are all of the forward pass, so gradients need a second run.
ncu_norms() {
  # shellcheck disable=SC2046 # words
  under_ncu --set full --launch-count 4 --kernel-name 'regex:^(moments|normalise)' -- $(step_of_resnet50) --norm-by kernels &&
    under_ncu --set full --launch-count 6 --kernel-name 'regex:^gradient_(sums|apply)' -- $(step_of_resnet50) --norm-by kernels
}
# First the time of every launch, then the three slowest once more, each alone.
ncu_convolutions() {
  local id
  # shellcheck disable=SC2046
  under_ncu --csv --print-units base --metrics gpu__time_duration.sum -- $(step_of_resnet50) >"$work/launches" || return
  "$python" -I - "$work/launches" >"$OUT/slowest.txt" <<'PYTHON' || return
import csv, sys
lines = [text for text in open(sys.argv[1], errors="replace") if text.startswith('"')]
theirs = [r for r in csv.DictReader(lines) if "convoy::" not in r["Kernel Name"]]
for r in sorted(theirs, key=lambda r: -float(r["Metric Value"].replace(",", "")))[:3]:
    print(r["ID"], r["Metric Value"], "ns", r["Kernel Name"])
PYTHON
  cat "$OUT/slowest.txt"
  while read -r id _; do
    # shellcheck disable=SC2046
    under_ncu --set full --launch-skip "$id" --launch-count 1 -- $(step_of_resnet50) || return
  done <"$OUT/slowest.txt"
}

# ---- the calls ----------------------------------------------------------------------------------
golden() { # SUFFIX [MODEL...]: the models that take seconds, and MODEL
  local model filter=''
  for model in linear mnist_linear mnist_conv airbench94 "${@:2}"; do filter+=":All/Golden*Values.*/cuda_$model$1"; done
  echo "${filter#:}"
}

# Tests of one kind on the device: `All/NameOn.*/cuda` for each NAME.
on_cuda() { local filter; printf -v filter ':All/%sOn.*/cuda' "$@"; echo "${filter#:}"; }

call_A() {
  run_body properties 40 properties
  run_body plan_probe 70 plan_probe f16
  bench bench_resnet50_f16 60 100 "$(line resnet50 f16 256 --norm-by kernels --tuning 15)" --peer none
  run_tests new_kernels 40 "$(on_cuda Resample Jittered Mixed Staged ExactSums Feed Gather Mixing Resampling)"
  local replays='All/CudaDeviceSteps.Captured*' branches='CudaBranches.AreTheSameBitsAs*:CudaBranches.AStep*'
  local device='CudaDevice.ANaN*:CudaDevice.LossScale*:CudaDevice.Nccl*'
  run_tests captured 50 "$replays/mnist_conv_*:$replays/resnet18_f16:CudaBackends.*:$branches:CudaOrder.*:$device"
  run_tests fused 70 "$(golden '_f16_norms_by_convolutions' resnet18_imagenet):$(
    golden '_*f16_norms_by_plans' resnet18_imagenet):CudaDevice.ConvolutionsInF16*"
  run_body plan_probe_bf16 60 plan_probe bf16
  run_tests golden_f32 50 "$(golden '' resnet18_cifar resnet18_imagenet)"
  run_body placements 25 placements
  bench bench_resnet50_bf16 60 100 "$(line resnet50 bf16 256 --norm-by kernels --tuning 15)" --peer none
  bench bench_airbench94 40 200 "$(line airbench94 bf16 1024 --norm-by kernels)" --peer none
  local all='All/Ops.*/cuda_' gradients='All/OpGradients*/cuda_' # one op each, in f32 and:
  shard_tests ops 50 "$all*:All/OpsOf.*/cuda:$all*_bf16:$all*_f16"
  shard_tests op_gradients 50 "$gradients*:$gradients*_bf16:$gradients*_f16"
  run_tests steps 40 "$(on_cuda Step Muon Models)"
  run_tests golden_low_by_kernels 50 "$(golden '_*_norms_by_kernels')"
  run_tests golden_low_measured 50 "$(golden '_*f16'):$(golden '_*f32')"
  run_tests two_ranks 40 'CudaDevice.TwoRanksOnOneGpu*'
  run_tests resume 30 'CudaDevice.AResumedRun*'
  stage memcheck_images 160 bash tests/cuda/gpu.sh sanitize memcheck images
}
call_B() {
  bench tuned_resnet50_f16 200 200 "$(line resnet50 f16 256)" --peer none
  bench tuned_resnet50_bf16 120 200 "$(line resnet50 bf16 256 --tuning 80)" --peer none
  run_body torch_eager 100 torch eager "resnet50 f16 256" 90
  run_body torch_compiled 200 torch compile "resnet50 f16 256" 190
  stage racecheck_norms 160 bash tests/cuda/gpu.sh sanitize racecheck norms
}
call_C() {
  run_body airbench94_cifar10 150 cifar10 1 2 3 4 5
  bench pyramidnet_768 120 100 "$(line pyramidnet bf16 768 --tuning 60)" --peer none
  run_body ncu_norms 90 ncu_norms
  run_body ncu_convolutions 150 ncu_convolutions
}
call_D() { # BEFORE AFTER
  bench before_and_after 410 200 "$1" --line "$2" --rounds 2 --peer none
}

case ${1:-} in
  A | B | C) [[ $# -eq 1 ]] ;;
  D) [[ $# -eq 3 ]] ;;
  body) "${@:2}"; exit ;;
  *) false ;;
esac || { echo "usage: gpu_slot.sh A|B|C, or D 'resnet50 f16 256 --norm-by kernels' 'resnet50 f16 256'" >&2; exit 2; }
work=$(mktemp -d) keeper='' || exit 1
export work XDG_CACHE_HOME=$OUT
trap leave EXIT
# timeout signals its child, then the group: the second must not cut leave() short.
trap 'trap "" INT TERM; exit 130' INT
trap 'trap "" INT TERM; exit 143' TERM
for folder in "$plans" "${SLOT_CACHE:-}"; do
  [[ ! -d $folder ]] || find "$folder" -name 'plans-*.txt' -exec cp -p {} "$OUT/convoy/" \;
done
# Keeps the device open between the stages, and records its clocks, power and load.
if command -v nvidia-smi >/dev/null; then
  setsid nvidia-smi dmon -s pucvmet -d 2 </dev/null >"$OUT/dmon.txt" 2>&1 &
  keeper=$!
fi
# Reads a gigabyte of libraries from a disk that may be cold while the first stage looks around.
IFS=: read -ra folders <<<"${LD_LIBRARY_PATH:-}"
for folder in ${folders[@]+"${folders[@]}"}; do cat "$folder"/lib{cudnn,nccl,nvrtc,cublasLt}*.so* >/dev/null 2>&1; done &
printf '\n==== gpu_slot.sh %s\n%s\n' "$*" "$(cat BUILT 2>/dev/null)" >>"$log"
"call_$1" "${@:2}"
