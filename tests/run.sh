#!/usr/bin/env bash
# Runs the tests whose names match the pattern and ends with "N passed, N failed, N skipped". Without a pattern also, where the emulated device was built,
# what needs a GPU but takes no more than some seconds there: all but the largest models, and what only a real one can show.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
pattern=${1:-*} build=${BUILD:-build}
on_emulated='Cuda.*:CudaVersions.*:*CudaSteps*:*/cuda*-*ADeviceThatIs*:*pyramidnet*:*_cifar*:*CudaSteps*resnet*:*resnet50*kernels:*resnet50*plans'
reports=()
code=0
tests() { # tests PROGRAM FILTER
  local report=$1.json
  reports+=("$report")
  rm -f "$report"
  "$1" --gtest_filter="$2" --gtest_output="json:$report" --gtest_brief=0 || code=$?
  [ -e "$report" ] || { echo "the test program ended early (exit $code)"; echo "0 passed, 1 failed"; exit 1; }
}
tests "$build/convoy_tests" "$pattern"
if [ "$pattern" = '*' ] && [ -x "$build/emulated/convoy_tests" ]; then
  echo "on the emulated device:"
  rm -rf "$build/emulated/cache"
  XDG_CACHE_HOME=$(cd "$build" && pwd)/emulated/cache EMULATED_GPUS=2 tests "$build/emulated/convoy_tests" "$on_emulated"
fi
"${PYTHON:-/usr/bin/python3}" - "${reports[@]}" <<'PY'
import json, os, sys
cases = [t for report in sys.argv[1:] for suite in json.load(open(report))["testsuites"] for t in suite["testsuite"]]
ran = [t for t in cases if t["result"] == "COMPLETED" and not t.get("failures")]
failed = [t for t in cases if t.get("failures")]
skipped = [t for t in cases if t["result"] == "SKIPPED" and not t.get("failures")]
for t in sorted(cases, key=lambda t: -float(t["time"].rstrip("s")))[:5]:
    print(f'{t["time"]:>10} {t["classname"]}.{t["name"]}')
if os.environ.get("CONVOY_LONG") and any(k.startswith("fault") for t in cases for k in t):
    print("\n| fault | promised | observed | runs |\n|---|---|---|---|")
    for t in cases:
        for key in (k for k in t if k.startswith("fault")):
            print(f'| {t[key]} |{" **FAILED**" if t.get("failures") else ""}')
    print()
print(f"{len(ran)} passed, {len(failed)} failed, {len(skipped)} skipped")
sys.exit(bool(failed) or not ran)
PY
result=$?
[ "$code" -eq 0 ] && exit $result
exit 1
