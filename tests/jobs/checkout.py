"""A checkout like a user's: the shipped jobs/ and recipes, the built executable, a small data set."""

import os
import shutil
import tempfile

from hosts import sh

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.path.join(ROOT, os.environ.get("BUILD", "build")))

# Settings for tests as root, and for many ranks on few cores. Job scripts have no such settings.
os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1")


class Checkout:
    def __init__(self, folder=None, name="convoy-checkout-"):
        self.dir = tempfile.mkdtemp(prefix=name, dir=folder)
        os.chmod(self.dir, 0o755)
        shutil.copytree(
            os.path.join(ROOT, "jobs"), self.path("jobs"), ignore=shutil.ignore_patterns("*.env", "hostfile")
        )
        shutil.copytree(os.path.join(ROOT, "input", "recipes"), self.path("input", "recipes"))
        os.mkdir(self.path("output"))
        os.symlink(BUILD, self.path("build"))
        self.sh("build/convoy convert synthetic --images 2000 --size 28x28x1 --classes 10 --seed 1 --to input/mnist")

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def sh(self, command, **options):
        return sh(command, cwd=self.dir, **options)

    def read(self, *names):
        try:
            with open(self.path(*names), errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def remove(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def parameters(model_file):
    """Returns every data set of a model file, as bytes by name."""
    import h5py

    found = {}
    with h5py.File(model_file, "r") as f:
        f.visititems(
            lambda name, item: found.update({name: item[()].tobytes()}) if isinstance(item, h5py.Dataset) else None
        )
    return found


def ranks_by_host(metrics_file):
    import h5py

    with h5py.File(metrics_file, "r") as f:
        hosts = [h.decode() if isinstance(h, bytes) else h for h in f["ranks/host"][:]]
    return {h: hosts.count(h) for h in hosts}
