#!/usr/bin/env bash
# Builds Convoy inside a container that is being made, and puts it into the path; run in Convoy's
# folder by Dockerfile and convoy.def. Expected: a few minutes, and the output of convoy info at the
# end.
set -euo pipefail
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends make git g++ ca-certificates >/dev/null
cuda=/usr/local/cuda
if [[ -e $cuda ]]; then # NVIDIA's packages put these beside the toolkit, and Convoy looks for them in it
  find /usr/include \( -name 'cudnn*.h' -o -name nccl.h \) -exec ln -sf {} $cuda/include/ \;
fi
make clean
make deps
make -j"$(nproc)" all ${COMMIT:+COMMIT="$COMMIT"} # .git is not in every image
ln -sf "$PWD/build/convoy" /usr/local/bin/convoy
rm -rf /var/lib/apt/lists/*
convoy info
