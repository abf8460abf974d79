#!/usr/bin/env bash
# Measures the throughput of a network on one node's GPUs. It stands in for the train.sh that people
# run with PyTorch's ImageNet example: the same arguments, the same four lines, the same log.
#   jobs/train.sh [MODEL [GPUS [BATCH]]]        # resnet50, "0" (as in 0,1,2,3), 128 per GPU
# Runs one rank per GPU. The recipe is input/recipes/tests/resnet50.cfg: the rate is the global
# batch / 1000, momentum 0.9 and decay 1e-4, one epoch, one line per step. Logs go to
# ../logs/benchmark_log/cnns, like the original's, or into CONVOY_LOGS instead of ../logs. Images
# come from CONVOY_DATA, a folder that 'convoy convert' made. Default: generated images of 224x224x3
# with 1,000 classes in input/synthetic-imagenet-12800 (CONVOY_IMAGES; 1.9 GB), made at first use.
# Their accuracy means nothing. CONVOY_DEVICE=cpu: ranks on CPUs, for a trial. CONVOY_ARGS: further
# options of convoy train, quoted as in a shell. Expected: 347 images/s were published for PyTorch
# on one V100 (output/published/resnet50-v100.csv); this has never run on a GPU.
set -euo pipefail
model=${1:-resnet50} gpus=${2:-0} batch=${3:-128}
fail() {
  echo "train.sh: $*" >&2
  exit 2
}
[[ $gpus =~ ^[0-9]+(,[0-9]+)*$ ]] || fail "GPUS '$gpus' is not a list of device numbers as in 0,1,2,3"
[[ $batch =~ ^[1-9][0-9]*$ ]] || fail "BATCH '$batch' is not a number of images per GPU"

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
convoy=("$root/build/convoy")
[[ -z ${CONVOY_COMMAND:-} ]] || read -ra convoy <<<"$CONVOY_COMMAND"
words=$(xargs -r printf '%s\n' <<<"${CONVOY_ARGS:-}" 2>/dev/null) || fail "CONVOY_ARGS '$CONVOY_ARGS' has a quote that does not end"
more=()
[[ -z $words ]] || mapfile -t more <<<"$words"
IFS=, read -ra devices <<<"$gpus"
ranks=${#devices[@]}
total=$((batch * ranks))
rate=$(awk -v total="$total" 'BEGIN { print total / 1000 }')
folder=${CONVOY_LOGS:-../logs}/benchmark_log/cnns/${model}_1node_bz$batch
log=$folder/1n${ranks}c_real.log

echo "Use gpus: $gpus"
echo "Batch size : $batch"
echo "Learning rate: $rate"
data=${CONVOY_DATA:-}
if [[ -z $data ]]; then
  images=${CONVOY_IMAGES:-12800}
  data=$root/input/synthetic-imagenet-$images
  echo "Data: synthetic, $images made-up images of 224x224x3 and 1,000 classes; CONVOY_DATA names real ones" >&2
  [[ -e $data/manifest.json ]] ||
    "${convoy[@]}" convert synthetic --images "$images" --test-images 1000 --size 224x224x3 --classes 1000 --to "$data" >&2
fi

device=(--device cuda --devices "$gpus")
[[ ${CONVOY_DEVICE:-cuda} == cuda ]] || device=(--device "$CONVOY_DEVICE")
# Another user's link could lead to an earlier run of yours, which would be replaced. Whoever owns a
# folder can put such a link there at any time. One look tells owner and kind, because another user
# may exchange the two between two looks.
check_paths() {
  local path about
  for path in "${paths[@]}"; do
    about=$(LC_ALL=C stat -c '%u %F' "$path" 2>/dev/null) || continue
    [[ $about != *link ]] || fail "$path is a link; name the folder itself: CONVOY_LOGS=FOLDER"
    [[ $about == "$(id -u) directory" || $about == "0 directory" ]] ||
      fail "$path is no folder, or belongs to another user; choose another folder: CONVOY_LOGS=FOLDER"
  done
}
cnns=${folder%/*} benchmark_log=${folder%/*/*}
paths=("$folder" "${log%.log}" "$cnns" "$benchmark_log")
[[ -n ${CONVOY_LOGS:-} ]] || paths+=(../logs) # a link that the user names is followed
check_paths
mkdir -p "$folder"
check_paths
rm -f "$log"
# dd makes the file itself, or fails: another user may put a link or a pipe there now. A pipe that
# is opened for reading, too, is not waited for.
no_log="$log was put there by another user; choose another folder: CONVOY_LOGS=FOLDER"
dd of="$log" conv=excl </dev/null 2>/dev/null || fail "$no_log"
exec 9<>"$log"
[[ ! -L $log && -f /dev/fd/9 && ! -s /dev/fd/9 && $log -ef /dev/fd/9 ]] || fail "$no_log"
# mpirun would use /tmp/ompi.HOST.UID even if another user has made it, and delete what is there.
scratch=$(mktemp -d /tmp/convoy-job-XXXXXX)
trap 'rm -rf "$scratch"' EXIT
export OMPI_MCA_orte_tmpdir_base=${OMPI_MCA_orte_tmpdir_base:-$scratch} PRTE_MCA_prte_tmpdir_base=${PRTE_MCA_prte_tmpdir_base:-$scratch}
# Its hwloc would ask X servers for GPUs, and any user of the node can answer in their place.
export HWLOC_COMPONENTS=${HWLOC_COMPONENTS--gl}
code=0
# In a job, or with a list of hosts, mpirun would start a daemon on each host.
export OMPI_MCA_orte_default_hostfile=none PRTE_MCA_prte_default_hostfile=none
mpirun --bind-to none --oversubscribe -H "localhost:$ranks" -np "$ranks" "${convoy[@]}" train --config "$root/input/recipes/tests/resnet50.cfg" \
  --model "$model" --data "$data" --batch-size "$total" --lr "$rate" --log-format imagenet \
  --checkpoint-every none --output "${log%.log}" --overwrite "${device[@]}" "${more[@]}" 2>&1 9>&- | tee -a /dev/fd/9 || code=$?
echo "Writting log to $log"
exit "$code"
