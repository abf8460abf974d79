#!/usr/bin/env bash
# The main job: trains on input/cifar10 if `make data` has put it there, else on the sample, and
# draws the run. NP ranks (default 2, or 1 on one core), RUN the run folder. Downloads nothing.
# `run.sh plan` only says what `make run` is about to do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cores=$(nproc)
ranks=${NP:-$((cores < 2 ? 1 : 2))}
run=${RUN:-output/$(date +%Y%m%d-%H%M%S)}
convoy=${BUILD:-build}/convoy

if [[ -e input/cifar10/manifest.json ]]; then
  data=input/cifar10 recipe=input/recipes/cifar10-quick.cfg what='the full CIFAR-10' minutes='a few minutes'
else
  data=input/cifar10-sample recipe=input/recipes/sample.cfg what='a sample of 2,000 images' minutes='1 to 2 minutes'
fi

if [[ ${1:-} == plan ]]; then
  # Measured on a bare Debian 12: 60 s of apt, 5 minutes of one core's time for the compiler.
  echo "make run: trains on $what ($minutes) and draws the run"
  [[ -x $convoy ]] || echo "first it installs what is missing (about a minute) and builds $convoy (about $(((5 + cores) / cores)) minutes)"
  exit 0
fi

next=''
[[ $data == input/cifar10 ]] || next="; 'make data' fetches the full CIFAR-10"
echo "training on $data, $what$next"
# mpirun would use /tmp/ompi.HOST.UID even if another user has made it, and delete what is there.
scratch=$(mktemp -d /tmp/convoy-job-XXXXXX)
trap 'rm -rf "$scratch"' EXIT
export OMPI_MCA_orte_tmpdir_base=${OMPI_MCA_orte_tmpdir_base:-$scratch} PRTE_MCA_prte_tmpdir_base=${PRTE_MCA_prte_tmpdir_base:-$scratch}
# Its hwloc would ask X servers for GPUs, and any user of the node can answer in their place.
export HWLOC_COMPONENTS=${HWLOC_COMPONENTS--gl}
bind=()
if ((ranks == 1)); then bind=(--bind-to none); fi # mpirun would tie a lone rank to one core
# In a job, or with a list of hosts, mpirun would start a daemon on each host.
export OMPI_MCA_orte_default_hostfile=none PRTE_MCA_prte_default_hostfile=none
mpirun -H "localhost:$ranks" -np "$ranks" "${bind[@]}" "$convoy" train --config "$recipe" --data "$data" --output "$run" "$@"
"$convoy" plot "$run"
printf -v run %q "$run" # for who pastes it into a shell
printf -v convoy %q "$convoy"
echo "metrics: $run/metrics.h5   picture: $run/metrics.png   model: $run/model.h5   next: $convoy evaluate --model-file $run/model.h5 --data $data"
