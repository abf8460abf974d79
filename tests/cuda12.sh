#!/usr/bin/env bash
# Builds Convoy with CUDA 12 for the GPUs in ARCHS in a bare Debian 13, whose non-free part has that
# toolkit, and tests there what needs no GPU: kernels on the host, and cuDNN's plans for each chip.
# Builds what is committed. Needs root, debootstrap and a network, which is asked for 3 GB the first
# time. Besides what tests/bare.sh says, the Debian with the toolkit stays as an archive.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ARCHS=${ARCHS:-60 61 70 75 80 86 89 90} JOBS=${JOBS:-$(nproc)} logs=${BUILD:-build}/cuda12
# cuDNN 9.11 and newer have no code for Pascal and Volta.
cudnn=9.10.2.21 nccl=2.26.5
system=trixie-cudnn-$cudnn-nccl-$nccl
flags="CUDA=/opt/cuda12 CXX=g++-13 CUDA_ARCHS='$ARCHS'" # Debian's nvcc takes GCC up to 13
source .ci/sum.sh
source tests/bare.sh

# One command as root in `tree`; its own count of tests is added, or 1 if it has none.
step() { # LOG LINE
  local log=$logs/$1.log start=$SECONDS code=0
  inside root "set -e; export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; $2" >"$log" 2>&1 || code=$?
  add_up "$log" "$code"
  echo "test-cuda12: $1: $counted, $((SECONDS - start)) s ($log)"
  [[ $code -eq 0 ]] || { grep -a '^FAILED' "$log" || tail -n 15 "$log"; return 1; }
}

sums() {
  cat <<'SUMS'
949452be657fa16687d0930933f032835951ef0892b37d2d53824d1a84dc97a8  nvidia_cudnn_cu12-9.10.2.21-py3-none-manylinux_2_27_x86_64.whl
ea5ed3e053c735f16809bee7111deac62ac35b10128a8c102960a0462ce16cbe  nvidia_nccl_cu12-2.26.5-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
SUMS
}

# Debian's toolkit lies all over /usr. What make looks for is linked into one folder, beside cuDNN
# and NCCL. Of the toolkit's static libraries only the runtime is needed, of the others what cuDNN
# opens. With the driver's library, cuDNN would compile kernels that no GPU can load.
install_toolkit() {
  step toolkit "sed -i 's/ main\$/ main contrib non-free/' /etc/apt/sources.list
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nvidia-cuda-toolkit g++-13 python3-pip
    apt-get clean
    cd /usr/lib/x86_64-linux-gnu
    find . -maxdepth 1 -name 'lib*_static*.a' ! -name libcudart_static.a -delete
    rm -f lib{cufft,cusparse,cusolver,npp,curand}*.so.* {,nvidia/current/}libcuda.so*" &&
    step wheels "mkdir -p /opt/cuda12/lib64 /opt/cuda12/include /opt/wheels
    cd /opt/wheels
    python3 -m pip download --quiet --no-deps --only-binary=:all: nvidia-cudnn-cu12==$cudnn nvidia-nccl-cu12==$nccl
    sha256sum --check --quiet - <<'SUMS'
$(sums)
SUMS
    for wheel in *.whl; do python3 -m zipfile -e \$wheel .; done
    mv nvidia/*/include/*.h /opt/cuda12/include/
    mv nvidia/*/lib/*.so* /opt/cuda12/lib64/
    cd /opt/cuda12
    ln -s libcudnn.so.9 lib64/libcudnn.so
    ln -s libnccl.so.2 lib64/libnccl.so
    ln -s /usr/lib/x86_64-linux-gnu/stubs lib64/stubs
    ln -s /usr/lib/nvidia-cuda-toolkit/bin bin
    ln -s /usr/include/cuda*.h include/
    rm -r /opt/wheels"
}

# Sets `tree`: a Debian with the toolkit, from the archive if there is one.
start_with_toolkit() {
  if [[ -e $cache/$system.tar.gz ]]; then
    unpack "$system"
  else
    rm -f "$cache"/trixie-cudnn-*.tar.gz # of other versions
    bootstrap trixie && unpack trixie && install_toolkit && keep "$tree" "$system"
  fi
}

# Debian's GoogleTest was compiled by GCC 14 and needs symbols that GCC 13's copy of its library
# lacks. The library must have machine code for each architecture; its size is what the archives
# add.
build() {
  step deps "ln -sf /usr/lib/x86_64-linux-gnu/libstdc++.so.6 /usr/lib/gcc/x86_64-linux-gnu/13/libstdc++.so
    cd ~/convoy && make deps $flags" &&
    step build "cd ~/convoy && time make -j$JOBS $flags TEST_FOLDERS='cuda kernels ops support' all build/convoy_tests emulated
    ls -l build/libconvoy_cuda.so
    cuobjdump --list-elf build/libconvoy_cuda.so >/tmp/elf
    for arch in $ARCHS; do grep -c \"sm_\$arch\\.\" /tmp/elf; done"
}

# cuDNN for a toolkit before 12.8 crashes on a B200, so that is refused.
list_plans() {
  local chip
  for chip in p100 p40 v100 rtx2080ti a100 l40s h100 h200; do
    step "plans-$chip" "cd ~/convoy && build/convoy info --plans resnet50 --chip $chip >/tmp/plans; cat /tmp/plans; grep -q ' built ' /tmp/plans" || true
  done
}

run_tests() {
  local pattern
  pattern=$(printf ':%s.*' Kernel\* Fibers Cuda{Absent,Chips,DeviceChoice,Graphs,Loading,Plans,PlansOf,ChipPlans,Versions})
  step tests "cd ~/convoy && python3 tests/run.py '${pattern#:}'" || true
  step emulated "cd ~/convoy && build/emulated/convoy_tests --gtest_filter='CudaOldGpus.*'" || true
}

start_bare test-cuda12
curl --silent --fail --head --max-time 30 --output /dev/null "$MIRROR/dists/trixie/Release" || skip "needs a network: $MIRROR does not answer"
if start_with_toolkit; then
  share_compilations
  git clone --quiet "file://$PWD" "$tree/root/convoy"
  if build; then
    list_plans
    run_tests
  fi
else
  failed=$((failed + (failed == 0)))
fi
closing_line
((failed == 0))
