"""A checkout like a user's: the shipped jobs/ and recipes, the built executable, a small data set."""

import json
import os
import re
import shutil
import tempfile
import xml.etree.ElementTree

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


def acceptance(folder):
    """Returns accept.json of a folder of convoy accept, after a look at the other reports there."""
    with open(f"{folder}/accept.json") as f:
        found = json.load(f)
    drain = sorted(found["drain"])
    suite = xml.etree.ElementTree.parse(f"{folder}/junit.xml").find("testsuite")
    failed = [level["level"] for level in found["levels"] if level["outcome"] == "FAIL"]
    if [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None] != failed:
        raise AssertionError(f"{folder}/junit.xml has other failures than {failed}")
    with open(f"{folder}/accept.prom") as f:
        if sorted(re.findall(r'^convoy_accept_drain\{host="(.*)"\} 1$', f.read(), re.M)) != drain:
            raise AssertionError(f"{folder}/accept.prom drains other hosts than {drain}")
    with open(f"{folder}/report.html") as f:
        page = f.read()
    if found["verdict"] not in page or any(host not in page for host in drain):
        raise AssertionError(f"{folder}/report.html lacks the verdict {found['verdict']} or a host of {drain}")
    return found
