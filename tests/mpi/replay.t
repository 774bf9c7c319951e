#!/bin/bash
# A run with stragglers, some of them stopped, done again from its record: the
# same bits, whoever is slow now.
set -u
# shellcheck source=tests/tap.sh
. "$DSGD_SRCDIR/tests/tap.sh"
data=/usr/share/datasets/fashion-mnist
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none DSGD_CONF=/dev/null
unset DSGD_CHECKPOINT_DIR
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

for need in "mpirun|openmpi-bin" "$data|dataset-fashion-mnist"; do
    thing=${need%|*}
    command -v "$thing" >/dev/null || [ -e "$thing" ] && continue
    case ${DSGD_REQUIRE-} in
    *mpi*) echo "1..1"; echo "not ok 1 - $thing is missing"; exit 1 ;;
    esac
    skip_all "$thing is missing (${need#*|})"
done

ranks=5
# begin NAME CUTOFF ARGUMENT...: a training in the background.
begin() {
    local name=$1 cutoff=$2
    shift 2
    rm -f "$dir/$name.dsgd" "$dir/curve"
    DSGD_CUTOFF=$cutoff DSGD_RECORD=$dir/$name.dsgd timeout -k 5 60 \
        mpirun --oversubscribe -n "$ranks" "$DSGD_BUILDDIR/dsgd-train" \
        --model mlp --train-samples 8000 --progress none --lr .1 \
        --loss-curve "$dir/curve" --summary "$dir/$name.json" "$@" \
        >"$dir/$name.out" 2>&1 &
    launched=$!
}
train() {
    begin "$@"
    wait "$launched"
    rc=$?
}
reach() {
    local tries=0
    until [ -e "$dir/curve" ] && [ "$(wc -l <"$dir/curve")" -gt "$1" ]; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || return 1
        sleep 0.05
    done
}
# rank N: its process.
rank() {
    local pid
    for pid in $(pgrep -P "$(pgrep -P "$launched")"); do
        tr '\0' '\n' <"/proc/$pid/environ" |
            grep -qx "OMPI_COMM_WORLD_RANK=$1" && echo "$pid"
    done
}
said() { grep '^dsgd-train: ' "$dir/$1.out"; }
value() { sed -n "s/.*\"$2\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$dir/$1.json" | head -1; }
sql() { sqlite3 "$dir/$1.dsgd" "$2"; }
sums() { sql "$1" 'select step, value from checksum group by step, value'; }
masks() { sql "$1" 'select step, epoch, hex(mask), samples, lr_scale, epoch_end from step'; }

begin first static:3 --epochs 2 --straggle 1:4,3:2
reach 20
stopped=$(rank 2)
kill -STOP "$stopped"
reach 80
kill -CONT "$stopped"
other=$(rank 4)
kill -STOP "$other"
sleep 0.5
kill -CONT "$other"
wait $launched
is "a run with stragglers: exit code" $? 0
at_least "steps in which somebody was cut" \
    "$(sql first 'select count(*) from step where contributors < 5')" 50
at_least "workers that were cut" \
    "$(sql first 'select count(distinct worker) from late')" 2

train again "replay:$dir/first.dsgd" --epochs 2
is "its replay, nobody slow: exit code" $rc 0
is "says nothing" "$(said again)" ""
is "the same parameters" "$(value again parameter_checksum)" \
    "$(value first parameter_checksum)"
is "after each epoch" "$(sums again)" "$(sums first)"
is "of the same samples of the same workers" "$(masks again)" "$(masks first)"

train slow "replay:$dir/first.dsgd" --epochs 2 --straggle 0:6
is "with another straggler: exit code" $rc 0
is "the same parameters" "$(value slow parameter_checksum)" \
    "$(value first parameter_checksum)"

train short order --epochs 3 --max-steps 70 --straggle 4:3 --schedule constant
train end "replay:$dir/short.dsgd" --epochs 3 --schedule constant
is "the record's end is the replay's" "$(value end steps)" 70
is "with its parameters" "$(value end parameter_checksum)" \
    "$(value short parameter_checksum)"
train other "replay:$dir/short.dsgd" --epochs 3 --momentum .5
is "other settings: exit code" $rc 0
like "are warned of" "$(said other)" 'warning: the run that is replayed was of other settings: "mlp'
like "and what they change, too" "$(said other)" 'warning: the replay is not what was recorded'

# refused NAME REGEX CUTOFF ARGUMENT...
refused() {
    local name=$1 regex=$2
    shift 2
    train refused "$@"
    [ "$rc" -ne 0 ]
    like "$name: refused ($rc)" "$(said refused)" "$regex"
}
from=replay:$dir/short.dsgd
refused "another batch" 'with a batch of 32, and this run has 16' "$from" --batch 16
refused "other data" 'with samples: 8000, and this run has 4000' "$from" --train-samples 4000
refused "another model" 'gradient elements: 101771, and this' "$from" --model softmax
ranks=4 refused "fewer workers" 'with workers: 5, and this run has 4: a replay' "$from"
refused "no record" 'none.dsgd: No such file' "replay:$dir/none.dsgd"
DSGD_CHECKPOINT_DIR=$dir/ck refused "with checkpoints" \
    'unset DSGD_CHECKPOINT_DIR' "$from"
# damaged SQL: a copy of the record, changed.
damaged() {
    rm -f "$dir/bad.dsgd"
    cp "$dir/short.dsgd" "$dir/bad.dsgd"
    sqlite3 "$dir/bad.dsgd" "$1"
}
from=replay:$dir/bad.dsgd
damaged "update node set kernel = 'Abacus'"
refused "another kernel" 'computed with kernel Abacus, and node .*: set OPENBLAS_CORETYPE' "$from"
damaged 'delete from step where step = 33'
refused "a step is missing" 'step 33 is missing' "$from"
damaged 'update job set dropped_rows = 1'
refused "rows were dropped" 'rows are missing' "$from"
damaged 'update step set samples = samples - 3 where step = 5'
refused "samples it does not tell of" 'in step 5 [0-9]+ samples contributed' "$from"
damaged 'update job set resumed_step = 12'
refused "from a checkpoint" 'it begins after step 12' "$from"
tap_done
