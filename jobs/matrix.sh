# shellcheck shell=bash disable=SC2034,SC2154
# Sourced by common.sh: the scaling matrix. scaling() submits its allocations, and bench_on()
# measures the cells of one.

# ran_out_of_memory FOLDER: makes the file `oom` there unless bench has. bench makes none if another
# rank than the first runs out of memory during a step. Other users may be able to put a link in the
# place of FOLDER, so the file is made in the current folder, once that is known to be FOLDER.
ran_out_of_memory() (
  above=$(CDPATH='' cd "$(dirname "$1")" && env pwd -P)
  if ! CDPATH='' cd "$1" 2>/dev/null || [[ $(env pwd -P) != "$above/$(basename "$1")" ]]; then
    fail "$1 was exchanged while its cell was measured: start the job again, in a folder where others may not rename"
  fi
  [[ -e oom ]] || dd if=/dev/null of=oom conv=excl 2>/dev/null || fail "$1/oom cannot be written: check the folder and the disk"
)

# bench_on DEVICE MODEL OUT [options of convoy bench]: measures BATCHES x REPEATS cells on the ranks
# of this job, one folder each. A folder gets its name when its cell has ended, so a second call
# measures only the missing cells. Running out of memory (exit 7) is a result: the file `oom`.
bench_on() {
  local device=$1 model=${2:-} out=${3:-} batch repeat cell partial
  [[ -n $out && -n ${CELL:-} ]] || fail "the cells of the scaling matrix are submitted by scaling.sh"
  shift 3
  output=$out
  args=("$@")
  recipe=$(value_of config) recipe_text=''
  [[ -z $recipe ]] || read_recipe "$recipe"
  standard steps 100
  standard device "$device"
  # Published figures of these models use ImageNet's images and classes. Other models use their
  # default.
  if [[ $model == resnet* ]] && ! given data; then
    standard image-size 224x224x3
    standard classes 1000
  fi
  find_launcher
  for repeat in $(seq "$REPEATS"); do
    for batch in $BATCHES; do
      cell=$out/$CELL-b$batch-r$repeat
      [[ ! -e $cell ]] || continue
      mkdir -p "$out"
      # A name that no other user can guess, so nothing needs to be removed first.
      partial=$(mktemp -u "$out/.$CELL-b$batch-r$repeat.XXXXXX")
      mkdir "$partial"
      supervise "${launch[@]}" "${convoy[@]}" bench --model "$model" --batch-per-rank "$batch" --output "$partial" "${args[@]}"
      [[ -z $asked ]] || code=85 # the job ends soon, and later continues with the next cell
      case $code in
        0) ;;
        7) ran_out_of_memory "$partial" ;;
        *) finish ;;
      esac
      mv -T "$partial" "$cell"
      echo "convoy job: $cell$([[ $code -eq 0 ]] || echo ': out of memory')"
    done
  done
}

# predict_scaling MODEL CELLS: prints expected results of cells for the file $CLUSTER. Never ends
# the script.
predict_scaling() {
  local model=$1 cells=$2 cell option ranks=() more=()
  if [[ ${CLUSTER:-} != *.cluster ]]; then # some sites use a variable CLUSTER for other purposes
    echo "to see first what to expect: CLUSTER=FILE.cluster, in the shell or the site file; jobs/site/ has some" >&2
    return 0
  fi
  for cell in $cells; do ranks+=("${cell#*n}"); done
  for option in precision image-size classes; do
    [[ -z $(value_of "$option") ]] || more+=("--$option" "$(value_of "$option")")
  done
  [[ " ${more[*]} " == *" --precision "* ]] || more+=(--precision f32) # bench's default
  (
    find_convoy
    "${convoy[@]}" predict --model "$model" --batch-per-rank "${BATCHES##* }" --cluster "$CLUSTER" \
      --ranks "$(IFS=, && echo "${ranks[*]%g}")" "${more[@]}"
  ) || echo "convoy job: there is no prediction; the matrix is submitted all the same" >&2
}

# Cells: powers of two on one node, then one, two and four whole nodes.
usual_cells() {
  local n
  for ((n = 1; n < gpus_per_node; n *= 2)); do echo "1n${n}g"; done
  for n in 1 2 4; do echo "${n}n$((n * gpus_per_node))g"; done
}

# scaling SUBMIT [MODEL] [OUT] [options of convoy bench]: calls SUBMIT CELL NODES GPUS_A_NODE MODEL
# OUT [options] for every allocation of the matrix with unfinished cells.
scaling() {
  local submit=$1 model=${2:-resnet50} out=${3:-$runs_folder/scaling-${2:-resnet50}} cell nodes gpus batch repeat left
  shift $(($# < 3 ? $# : 3))
  export BATCHES=${BATCHES:-32 64 128 160 256} REPEATS=${REPEATS:-5} CELL
  CELLS=${CELLS:-$(usual_cells)}
  for cell in $CELLS; do
    [[ $cell =~ ^[0-9]+n[0-9]+g$ ]] || fail "CELLS: $cell is not of the form 2n16g (nodes, GPUs of all nodes)"
  done
  args=("$@")
  predict_scaling "$model" "$CELLS"
  for cell in $CELLS; do
    nodes=${cell%n*} gpus=${cell#*n} gpus=${gpus%g}
    left=0
    for batch in $BATCHES; do
      for repeat in $(seq "$REPEATS"); do [[ -e $out/$cell-b$batch-r$repeat ]] || left=$((left + 1)); done
    done
    ((left > 0)) || { echo "$cell: done"; continue; }
    CELL=$cell
    "$submit" "$nodes" $((gpus / nodes)) "$model" "$out" "$@"
  done
  echo "when they have ended: build/convoy report --scaling $(quoted "$out")/*"
}
