#!/usr/bin/env bash
# The main job: trains on input/cifar10 if `make data` has put it there, else on the sample, and draws the run.
# NP ranks (default 2, or 1 on one core), RUN the run folder. Downloads nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cores=$(nproc)
ranks=${NP:-$((cores < 2 ? 1 : 2))}
run=${RUN:-output/$(date +%Y%m%d-%H%M%S)}
convoy=${BUILD:-build}/convoy

if [[ -e input/cifar10/manifest.json ]]; then
  data=input/cifar10 recipe=input/recipes/cifar10-quick.cfg
  echo "training on the full CIFAR-10 in $data"
else
  data=input/cifar10-sample recipe=input/recipes/sample.cfg
  echo "training on $data, a sample of 2,000 images; 'make data' fetches the full CIFAR-10"
fi
bind=()
if ((ranks == 1)); then bind=(--bind-to none); fi # mpirun would tie a lone rank to one core
mpirun -np "$ranks" "${bind[@]}" "$convoy" train --config "$recipe" --data "$data" --output "$run" "$@"
"$convoy" plot "$run"
echo "metrics: $run/metrics.h5   picture: $run/metrics.png   model: $run/model.h5   next: $convoy evaluate --model-file $run/model.h5 --data $data"
