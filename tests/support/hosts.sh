#!/usr/bin/env bash
# Simulates several hosts on one machine: network namespaces on one switch, each with its own host
# name, node01 and so on. Runs
#   hosts.sh HOSTS RANKS_PER_HOST COMMAND [SLOW_HOST [RATE]]
# under mpirun on all of them. SLOW_HOST (from 1) sends and receives at RATE (20mbit) only. Ends
# with the code of mpirun. Exit 77: this user may not make namespaces.
set -u
hosts=$1 ranks=$2 command=$3 slow=${4:-0} rate=${5:-20mbit}
pids=() switch="cs$$" dir=$(mktemp -d)
finish() {
  kill "${pids[@]}" 2>/dev/null
  [ -z "${outer:-}" ] || kill "$outer" 2>/dev/null
  rm -rf "$dir"
}
trap finish EXIT
ok() { "$@" 2>/dev/null || exit 77; }
ok unshare -n -u true
unshare -n -u sh -c 'exec sleep 600' & outer=$! # the switch
sleep 0.3
ok nsenter -t $outer -n ip link add "$switch" type bridge
ok nsenter -t $outer -n ip link set "$switch" up
for i in $(seq "$hosts"); do
  unshare -n -u sh -c "hostname node$(printf %02d "$i") && exec sleep 600" & pids+=($!)
done
sleep 0.5
for i in $(seq "$hosts"); do
  pid=${pids[i - 1]}
  ok ip link add "ca$$" type veth peer name "cb$$"
  ok ip link set "ca$$" netns "$pid" name cable
  ok ip link set "cb$$" netns "$outer" name "port$i"
  ok nsenter -t "$outer" -n sh -c "ip link set port$i master $switch; ip link set port$i up"
  ok nsenter -t "$pid" -n sh -c "ip link set lo up; ip addr add 10.99.0.$i/24 dev cable; ip link set cable up"
  if [ "$i" = "$slow" ]; then
    ok nsenter -t "$pid" -n tc qdisc add dev cable root tbf rate "$rate" burst 64kbit latency 400ms
    ok nsenter -t "$outer" -n tc qdisc add dev "port$i" root tbf rate "$rate" burst 64kbit latency 400ms
  fi
  echo "10.99.0.$i slots=$ranks" >>"$dir/hosts"
  echo "$pid" >"$dir/pid-10.99.0.$i"
done
printf '#!/bin/sh\nhost=$1\nshift\nexec nsenter -t "$(cat "%s/pid-$host")" -n -u sh -c "$*"\n' "$dir" >"$dir/agent"
chmod +x "$dir/agent"
timeout -k 5 200 nsenter -t "${pids[0]}" -n -u mpirun --hostfile "$dir/hosts" -np $((hosts * ranks)) --bind-to none \
  --mca plm_rsh_agent "$dir/agent" --mca btl_tcp_if_include cable --mca oob_tcp_if_include cable \
  --mca plm_rsh_no_tree_spawn 1 sh -c "$command"
