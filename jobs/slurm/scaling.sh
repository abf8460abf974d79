#!/usr/bin/env bash
# Submits the scaling matrix: 1 GPU to 4 nodes with 8 GPUs each, batch-per-rank 32 to 256, five
# repeats, in six jobs.
#   jobs/slurm/scaling.sh [MODEL [OUT [options of convoy bench]]]        # resnet50, output/scaling-MODEL
#   CELLS="1n1g 1n8g" BATCHES="64 128" REPEATS=3 jobs/slurm/scaling.sh    # a part of it
#   CLUSTER=jobs/site/dgx-a100.cluster jobs/slurm/scaling.sh             # says first what to expect
# The resnets are measured on made-up images of 224x224x3 and 1,000 classes, unless the options have
# --image-size, --classes or --data.
# Cells that have ended are skipped, so a second call continues the matrix. A cell that runs out of
# memory is recorded as such. Expected: six jobs of 10 to 40 minutes on A100s (an estimate: this has
# never run on GPUs), then the table of build/convoy report.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source jobs/common.sh
submit() { # NODES GPUS_A_NODE MODEL OUT [options]
  jobs/submit.sh --job-name="convoy-$CELL" --nodes="$1" --gpus-per-node="$2" jobs/slurm/bench.sbatch "${@:3}"
}
scaling submit "$@"
