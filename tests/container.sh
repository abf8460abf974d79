#!/usr/bin/env bash
# Runs the steps of jobs/container/Dockerfile without a container engine, in a bare Debian of
# RELEASE, like Docker's image of it. Then it runs the programs that the image starts. Builds the
# commit, without CUDA. Needs root and debootstrap; tests/bare.sh says which files stay.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
RELEASE=${RELEASE:-bookworm} logs=${BUILD:-build}/container entry='' copied=''
source .ci/sum.sh
source tests/bare.sh
start_bare test-container

fail() {
  echo "test-container: $1"
  failed=$((failed + 1))
  closing_line
  exit 1
}

# Runs LINE as root in a shell like Docker's. Its output is in the file LOG and in `said`.
step() { # LOG LINE
  local start=$SECONDS code=0
  inside root "cd / && exec sh -c $(printf %q "$2")" >"$logs/$1.log" 2>&1 || code=$?
  said=$(<"$logs/$1.log")
  add_up "$logs/$1.log" "$code"
  echo "test-container: $2: $counted, $((SECONDS - start)) s ($logs/$1.log)"
  [[ $code -eq 0 ]] || { tail -n 15 "$logs/$1.log"; return 1; }
}

follow_dockerfile() {
  local instruction words runs=0
  while read -r instruction words; do
    case $instruction in
      '' | '#'* | ARG | FROM) ;;
      COPY)
        [[ $words == '. /'* ]] || fail "COPY $words: only all of the folder can be copied here"
        git clone --quiet "file://$PWD" "$tree${words#. }" || fail "COPY $words: cannot be cloned"
        copied=$(git -C "$tree${words#. }" rev-parse --short HEAD)
        ;;
      RUN) step "run-$((runs += 1))" "$words" || return 1 ;;
      ENTRYPOINT) entry=$(sed -n 's/^\["\([^"]*\)"\]$/\1/p' <<<"$words") ;;
      *) fail "$instruction $words: this test does not know that instruction" ;;
    esac
  done <jobs/container/Dockerfile
  [[ -n $entry ]] || fail "the Dockerfile has no ENTRYPOINT of one word"
}

start_image() {
  step version "$entry version" || return 1
  [[ $said == "convoy "*"($copied"* ]] || fail "that is another version than was copied"
  step convert "$entry convert synthetic --images 600 --size 28x28x1 --to /root/set" || return 1
  step train "$entry mpirun --allow-run-as-root --oversubscribe -np 2 convoy train --data /root/set --model mnist-linear --batch-size 100 --epochs 1 --output /root/run" ||
    return 1
  [[ $said == *", 2 ranks"*"done: "* ]] || fail "the training of two ranks did not end well"
}

bootstrap "$RELEASE" || fail "no bare system"
unpack "$RELEASE"
inside root 'apt-get purge -y -qq git make && apt-get autoremove -y -qq' >"$logs/purge.log" 2>&1 # Docker's image has neither
if follow_dockerfile; then start_image || true; fi
drop_tree
closing_line
((failed == 0))
