#!/bin/bash
# Aggregators of their own on two nodes: a worker that stops takes nothing but
# its own gradients away, also the first of its node, also worker 0.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
toy=$builddir/tests/mpi/toy
audit=$builddir/tests/record_audit
cluster_start -N 2

sql() { sqlite3 "$record" "$1"; }

# train NAME ARG...: two nodes of three tasks each.  Worker 0 and 1 are on n1, 2
# and 3 on n2.
train() {
    name=$1 record=$shared/$1.dsgd
    job timeout -k 5 80 env DSGD_AGGREGATOR=dedicated DSGD_CONF=/dev/null \
        DSGD_HARD_TIMEOUT=2 DSGD_RECORD="$record" srun -N2 \
        --ntasks-per-node=3 "$toy" -n 600 -g 600 -b 8 -e 6 -t 0.004 \
        "${@:2}" >"$shared/out" 2>&1
    is "$name: exit code" $? 0 || diag "$(tail "$shared/out")"
}

# trained WORKERS: so many come to the end, alike, and no sample is lost.
trained() {
    is "$name: workers at the end" "$(grep -c '^rank .* state' "$shared/out")" \
        "$1"
    is "$name: identical replicas" \
        "$(grep -o 'state .*' "$shared/out" | sort -u | wc -l)" 1
    says=$(job "$audit" "$record" 2>&1)
    like "$name: every sample once an epoch" "$says" \
        "epochs 6 .* doubled 0 missing 0 wrong 0 differ 0"
    is "$name: the record is complete" "$(sql 'select completed from job')" 1
}

train "nobody-stops"
trained 4
is "$name: the workers' nodes" \
    "$(sql 'select group_concat(node, "") from worker')" 0011

for worker in 2 0; do
    train "worker-$worker-stops" -x "$worker:5"
    trained 3
    is "$name: it alone is lost" \
        "$(sql "select group_concat(worker) from event where kind = 'lost'")" \
        "$worker"
    is "$name: no node is" \
        "$(sql "select count(*) from event where kind = 'node lost'")" 0
    # All the others, after the step that it was waited for in.
    is "$name: the others contribute to every step" \
        "$(sql 'select distinct hex(mask) from step where step > 5
                and not epoch_end')" \
        "$(printf '%02X' $((15 - (1 << worker))))"
done

record=$shared/one.dsgd
says=$(job timeout -k 5 60 env DSGD_AGGREGATOR=dedicated DSGD_CONF=/dev/null \
    srun -N2 -n3 -m plane=2 "$toy" 2>&1)
like "a node with one task is named" "$says" 'open: n2 has one rank'
for host in n1 n2; do
    is "nothing is left on $host" \
        "$(mc exec "$host" sh -c 'ls /dev/shm; pgrep -x toy')" ''
done
tap_done
