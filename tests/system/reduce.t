#!/bin/bash
# Sums across the nodes of a real cluster: the same bits by a star and by a
# spread exchange, and nodes that are frozen in the middle of one.
#
# DSGD_TEST_SEED repeats a run.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
unset DSGD_TEST_CLUSTER
need_slurm sqlite3
cluster_start -N 4 -q 200
toy=$builddir/tests/mpi/toy
seed=${DSGD_TEST_SEED:-$((SRANDOM % 100000))}
diag "seed $seed"
RANDOM=$seed

# run NAME=VALUE... -- ARGS...: toy on four nodes, its output in $out.
run() {
    local vars=()
    while [[ $1 != -- ]]; do vars+=("$1"); shift; done
    shift
    job srun -N4 --ntasks-per-node=2 env DSGD_CONF=/dev/null \
        "${vars[@]}" "$toy" "$@" >"$out" 2>&1
}
states() { grep -o 'state .*' "$out" | sort -u | wc -l; }
shown() { grep -c '^rank .* state' "$out"; }
state() { grep -o 'state .*' "$out" | sort -u; }

big=(-g 300000 -n 1000 -b 8 -e 2 -t .001 -R)
out=$shared/star
run DSGD_SPREAD_BYTES=1000000000 -- "${big[@]}"
is "star: exit code" $? 0
is "star: replicas" "$(shown) $(states)" "8 1"
star=$(state)
out=$shared/spread
run DSGD_SPREAD_BYTES=0 -- "${big[@]}"
is "spread: exit code" $? 0
is "spread: replicas" "$(shown) $(states)" "8 1"
is "spread: the bits of the star" "$(state)" "$star"

# Most of a step's time is the exchange: freezes of random nodes hit it at any
# point.  After one hard timeout the others go on without the node.  The run is
# long enough for the last node to catch up.
for spread in 1000000000 0; do
    out=$shared/frozen-$spread
    record=$shared/$spread.dsgd
    run DSGD_SPREAD_BYTES=$spread DSGD_HARD_TIMEOUT=1 DSGD_RECORD="$record" \
        -- -g 300000 -n 9000 -b 8 -e 9 -t .001 &
    pid=$!
    await 30 test -s "$record"
    for _ in 1 2 3; do
        node=n$((RANDOM % 3 + 2))
        sleep "0.$((RANDOM % 9 + 1))"
        mc freeze $node
        sleep 1.8
        mc thaw $node
    done
    wait "$pid"
    is "frozen nodes, spread from $spread bytes: exit code" $? 0
    is "replicas" "$(shown) $(states)" "8 1"
    [[ "$(shown) $(states)" == "8 1" ]] || diag "$(<"$out")"
    like "every sample once" "$(<"$out")" 'samples 81000 deviation 0.000'
    lost=$(sqlite3 "$record" "select count(*) from event where \
        text like 'did not deliver%' or text like 'no sign of life%'")
    at_least "nodes or their workers were taken out" "$lost" 1
    delivered=$(sqlite3 "$record" "select count(*) from event where \
        text like 'did not deliver%'")
    diag "in the middle of an exchange: $delivered of 3"
done
tap_done
