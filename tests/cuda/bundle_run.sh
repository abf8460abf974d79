#!/usr/bin/env bash
# Runs the programs in this folder with their own libraries: ./run info | train … | mpirun … |
# test-gpu | bench-gpu | gpu-slot A. CUDA's libraries: CONVOY_CUDA=folder, a toolkit or the nvidia/
# folder of Python wheels. Default: /usr/local/cuda and then python3's, because a toolkit may lack
# cuDNN and NCCL.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cuda=${CONVOY_CUDA:-/usr/local/cuda
$(python3 -c 'import sys; sys.path[:] = [p for p in sys.path if p[:1] == "/"]; import nvidia; print(*nvidia.__path__, sep="\n")' 2>/dev/null || true)}
path=$here/lib
while read -r root; do
  for dir in "$root"/lib64 "$root"/lib "$root"/*/lib; do [ -z "$root" ] || [ ! -d "$dir" ] || path=$path:$dir; done
done <<<"$cuda"
export CONVOY_HOST_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
export LD_LIBRARY_PATH=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH=$here/openmpi:$here/build:${PATH:-/usr/bin:/bin}
export OMPI_MCA_mca_base_component_path=$here/openmpi/plugins PMIX_MCA_mca_base_component_path=$here/openmpi/pmix
export PMIX_MCA_pcompress_base_silence_warning=1
export OPAL_PKGDATADIR=$here/openmpi/help OPAL_BINDIR=$here/openmpi OMPI_MCA_orte_launch_agent=$here/openmpi/orted
# hwloc would ask X servers for GPUs, and any user of the node can answer in their place.
export HWLOC_COMPONENTS=${HWLOC_COMPONENTS--gl}
export OMPI_MCA_btl=${OMPI_MCA_btl:-self,vader,tcp} OMPI_MCA_pml=${OMPI_MCA_pml:-ob1}
command -v ssh >/dev/null || export OMPI_MCA_plm=isolated  # one node does not need ssh
[ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# mpirun would use /tmp/ompi.HOST.UID even if another user has made it, and delete what is there.
[ ! -w "$here" ] || export OMPI_MCA_orte_tmpdir_base=${OMPI_MCA_orte_tmpdir_base:-$here/tmp}
# OpenMPI does not start without a network interface that is up, and some machines leave even `lo`
# down.
if [ "$(id -u)" -eq 0 ]; then
  ip link set lo up 2>/dev/null || python3 -I - 2>/dev/null <<'PYTHON' || true
import fcntl, socket, struct
up = struct.pack("16sH14s", b"lo", 1, b"")  # struct ifreq: the name, IFF_UP
fcntl.ioctl(socket.socket(), 0x8914, up)  # SIOCSIFFLAGS
PYTHON
fi
case ${1:-info} in
  test-gpu | bench-gpu) cd "$here" && BUILD=build exec bash tests/cuda/gpu.sh "${1%-gpu}" "${@:2}" ;;
  gpu-slot) exec bash "$here/tests/gpu_slot.sh" "${@:2}" ;;
  mpirun) exec mpirun "${@:2}" ;;
  *) exec "$here/build/convoy" "${@:-info}" ;;
esac
