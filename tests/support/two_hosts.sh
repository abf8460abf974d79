#!/usr/bin/env bash
# Simulates two hosts on one machine: network namespaces joined by one cable, each with its own host
# name. Runs
#   two_hosts.sh COMMAND RANKS_PER_HOST CUT_WHEN_THIS_EXISTS
# under mpirun on both. Cuts the cable two seconds after the file appeared; never, if the name is
# empty. Prints the exit code and the seconds from the cut to the end. Exit 77: this user may not
# make namespaces.
set -u
command=$1 ranks=$2 mark=$3
ok() { "$@" 2>/dev/null || { kill "${a:-}" "${b:-}" 2>/dev/null; exit 77; }; }
dir=$(mktemp -d)
ok unshare -n -u true
unshare -n -u sh -c 'hostname convoy-a && exec sleep 600' & a=$!
unshare -n -u sh -c 'hostname convoy-b && exec sleep 600' & b=$!
trap 'kill $a $b; rm -rf "$dir"' EXIT
sleep 0.5
ok ip link add "ca$$" type veth peer name "cb$$"
ok ip link set "ca$$" netns "$a" name cable
ok ip link set "cb$$" netns "$b" name cable
ok nsenter -t "$a" -n sh -c "ip link set lo up; ip addr add 10.99.0.1/24 dev cable; ip link set cable up"
ok nsenter -t "$b" -n sh -c "ip link set lo up; ip addr add 10.99.0.2/24 dev cable; ip link set cable up"
printf '#!/bin/sh\nshift\nexec nsenter -t %s -n -u sh -c "$*"\n' "$b" >"$dir/agent"
chmod +x "$dir/agent"
# Use a file, because OpenMPI 5 knows the first host of --host only by its name.
printf '10.99.0.%s slots='"$ranks"'\n' 1 2 >"$dir/hosts"
timeout -k 5 100 nsenter -t "$a" -n -u mpirun --hostfile "$dir/hosts" -np $((2 * ranks)) --bind-to none \
  --mca plm_rsh_agent "$dir/agent" --mca btl_tcp_if_include cable --mca oob_tcp_if_include cable sh -c "$command" &
job=$!
if [ -n "$mark" ]; then
  for _ in $(seq 600); do [ -e "$mark" ] && break; sleep 0.05; done
  sleep 2
  nsenter -t "$a" -n ip link set cable down
fi
start=$(date +%s)
wait $job
echo "$? $(($(date +%s) - start))"
