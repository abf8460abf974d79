#!/usr/bin/env bash
# Builds Convoy inside a container image in the making, and puts it into the path. Dockerfile and
# convoy.def run it in Convoy's folder. Expected: a few minutes, and the output of convoy info at
# the end.
set -euo pipefail
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends make git g++ ca-certificates >/dev/null
cuda=/usr/local/cuda
if [[ -e $cuda ]]; then # NVIDIA's packages put these beside the toolkit, and Convoy looks for them in it
  find /usr/include \( -name 'cudnn*.h' -o -name nccl.h \) -exec ln -sf {} $cuda/include/ \;
fi
make clean
make deps
make -j"$(nproc)" all ${COMMIT:+COMMIT="$COMMIT"} # some images have no .git
ln -sf "$PWD/build/convoy" /usr/local/bin/convoy
rm -rf /var/lib/apt/lists/*
convoy info
