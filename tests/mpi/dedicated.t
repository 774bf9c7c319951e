#!/bin/bash
# Aggregators of their own: the first rank of the node is no worker.
# shellcheck source=tests/mpi/lib.sh
. "$(dirname "$0")/lib.sh"
toy=$DSGD_BUILDDIR/tests/mpi/toy
train=$DSGD_BUILDDIR/dsgd-train
export DSGD_AGGREGATOR=dedicated

# run RANKS CMD...: output in $out, code in $rc.
run() {
    timeout -k 5 100 mpirun --oversubscribe -n "$1" "${@:2}" >"$dir/out" 2>&1
    rc=$?
    out=$(<"$dir/out")
}
# trained N TEXT: N workers with one state, and what worker 0 says.
trained() {
    is "$name: exit code" "$rc" 0
    is "$name: the workers" "$(grep -c '^rank .* state' "$dir/out")" "$1"
    is "$name: with one state" \
        "$(grep -o 'state .*' "$dir/out" | sort -u | wc -l)" 1
    [[ -z ${2-} ]] || like "$name: worker 0" "$out" "$2"
}

name="four ranks"
run 4 "$toy" -t .001
trained 3 'steps 84 samples 2000 deviation 0\.000'
name="two ranks"
run 2 "$toy" -t .001
trained 1 'steps 250 samples 2000 deviation 0\.000'

export DSGD_HARD_TIMEOUT=1
name="worker 0 stops for good"
DSGD_RECORD=$dir/r.dsgd run 4 "$toy" -t .003 -x 0:5 -e 4
trained 2
is "$name: and counts as lost" "$(sqlite3 "$dir/r.dsgd" \
    "select worker from event where kind = 'lost'")" 0
is "$name: the run is complete" "$(sqlite3 "$dir/r.dsgd" \
    "select completed, sum(samples) from job, step")" "1|4000"
unset DSGD_HARD_TIMEOUT

name="one rank"
run 1 "$toy" -t .001
is "$name: exit code" "$rc" 9
like "$name: what to do" "$out" \
    'has one rank, and .* start two or more a node, or set DSGD_AGGREGATOR=thread'

name="dsgd-train"
run 3 "$train" --model softmax --train-samples 2000 --epochs 2 \
    --summary "$dir/summary.json"
is "$name: exit code" "$rc" 0
like "$name: worker 0 reports" "$(tr -d "\n" <"$dir/summary.json")" \
    "\"workers\": 2,.*\"epoch\": 1,"
name="dsgd-train that diverges"
run 3 "$train" --model mlp --epochs 1 --lr 1000000
is "$name: exit code" "$rc" 11
is "$name: worker 0 says so, once" "$(grep -c 'training loss is' "$dir/out")" 1
name="dsgd-train, a report that can't be written"
run 3 "$train" --model softmax --summary "$dir/none/summary.json"
is "$name: exit code" "$rc" 5
is "$name: said once" "$(grep -c 'rank 1 on .*: --summary: .*none/summary.json' "$dir/out")" 1
tap_done
