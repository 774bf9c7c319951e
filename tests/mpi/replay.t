#!/bin/bash
# A run with stragglers, some of them stopped, done again from its record: the
# same bits, whoever is slow now, also of gradients that were late and carried,
# whole or in part.
# shellcheck source=tests/mpi/lib.sh
. "$(dirname "$0")/lib.sh"
need "$data" dataset-fashion-mnist

ranks=5
# begin NAME CUTOFF ARGUMENT...: a training in the background.
begin() {
    local name=$1 cutoff=$2
    shift 2
    curve=$dir/$name.curve
    rm -f "$dir/$name.dsgd" "$curve"
    DSGD_CUTOFF=$cutoff DSGD_RECORD=$dir/$name.dsgd timeout -k 5 60 \
        mpirun --oversubscribe -n "$ranks" "$DSGD_BUILDDIR/dsgd-train" \
        --model mlp --train-samples 8000 --progress none --lr .1 \
        --loss-curve "$curve" --summary "$dir/$name.json" "$@" \
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
    until [ -e "$curve" ] && [ "$(wc -l <"$curve")" -gt "$1" ]; do
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
parts() { sql "$1" 'select * from contribution order by step, worker, from_step'; }
# same NAME OF WHAT: the run is the other again.
same() {
    is "$3: exit code" $rc 0
    is "$3: says nothing" "$(said "$1")" ""
    is "$3: the same parameters" "$(value "$1" parameter_checksum)" \
        "$(value "$2" parameter_checksum)"
    is "$3: after each epoch" "$(sums "$1")" "$(sums "$2")"
    is "$3: the same loss in each step" "$(md5sum <"$dir/$1.curve")" \
        "$(md5sum <"$dir/$2.curve")"
    is "$3: of the same workers" "$(masks "$1")" "$(masks "$2")"
    is "$3: the same late and partial gradients" "$(parts "$1")" "$(parts "$2")"
}

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
same again first "its replay, nobody slow"

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

# carries NAME: gradients that were carried, whole and in part.
carries() {
    sql "$1" "select count(*) from contribution
        where from_step < step and samples $2 32"
}
# A gradient that took long for its own step, and a worker that was stopped.
DSGD_LATE=carry begin carried static:3 --epochs 2 --straggle 1:1.5,3:2
reach 20
stopped=$(rank 2)
kill -STOP "$stopped"
sleep 0.2
kill -CONT "$stopped"
wait $launched
is "with late gradients carried: exit code" $? 0
at_least "that were" "$(carries carried =)" 5
train recarried "replay:$dir/carried.dsgd" --epochs 2 --straggle 2:3
same recarried carried "its replay"
train again "replay:$dir/recarried.dsgd" --epochs 2
same again carried "the replay's replay"

# Batches that were abandoned between micro-batches.
many=(--epochs 2 --micro-batches 8)
DSGD_PARTIAL=contribute train abandoned static:2 "${many[@]}" --straggle 1:4,3:2
is "with abandoned batches: exit code" $rc 0
at_least "that contributed in part" "$(carries abandoned '<')" 20
train reabandoned "replay:$dir/abandoned.dsgd" "${many[@]}"
same reabandoned abandoned "its replay"
train again "replay:$dir/reabandoned.dsgd" "${many[@]}" --straggle 0:3
same again abandoned "the replay's replay"
train coarse "replay:$dir/abandoned.dsgd" --epochs 2
like "of a program that does not stop there: a warning" "$(said coarse)" \
    'warning: the replay is not what was recorded: other samples'

# Shared work, with a rank that is stopped at times: whoever computed what, in
# which order, is done again, with any size of parts.
# shared NAME: a run of that name and its replays.
shared() {
    local name=$1
    DSGD_PARTS=4 begin "$name" full --epochs 2 --straggle 1:4,3:2
    reach 20
    stopped=$(rank 2)
    kill -STOP "$stopped"
    reach 30
    kill -CONT "$stopped"
    wait $launched
    is "$name: exit code" $? 0
    at_least "$name: parts" "$(sql "$name" 'select count(*) from contribution')" 400
    train again "replay:$dir/$name.dsgd" --epochs 2 --straggle 0:3
    same again "$name" "its replay"
    DSGD_LATE=requeue DSGD_PARTS=2 train more "replay:$dir/again.dsgd" --epochs 2
    same more "$name" "the replay's replay"
}
export DSGD_WORK=shared
shared shared
DSGD_LATE=carry shared late
at_least "of which some were carried" \
    "$(sql late 'select count(*) from contribution where from_step < step')" 20
like "the record adds up" "$("$DSGD_BUILDDIR/tests/record_audit" "$dir/late.dsgd")" \
    'epochs 2 .* doubled 0 missing 0 wrong 0 differ 0'
train coarse "replay:$dir/late.dsgd" --epochs 1
like "of a program that leaves early: a warning" "$(said coarse)" \
    'warning: the replay is not what was recorded'
unset DSGD_WORK

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
# damaged SQL [RECORD]: a copy of the record, changed.
damaged() {
    rm -f "$dir/bad.dsgd"
    cp "$dir/${2-short}.dsgd" "$dir/bad.dsgd"
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
refused "samples it does not tell of" \
    'in step 5 [0-9]+ samples of [0-9]+ workers contributed' "$from"
damaged 'update job set resumed_step = 12'
refused "from a checkpoint" 'it begins after step 12' "$from"
# Of the first row of its kind.
row='rowid = (select min(rowid) from contribution)'
damaged "update contribution set samples = 33 where $row" carried
refused "more than was given out" 'what worker [0-9]+ contributed to step' "$from"
damaged "update contribution set first = first + 1 where $row" carried
refused "of another range" 'what worker [0-9]+ contributed to step' "$from"
damaged "update contribution set from_step = step where $row" carried
refused "in time and late" 'what worker [0-9]+ contributed to step' "$from"
damaged "update contribution set from_step = step - 2 where $row" carried
refused "two steps late" 'a gradient of step [0-9]+ in step [0-9]+' "$from"
damaged "delete from contribution where $row" carried
refused "carried, and not told of" 'in step [0-9]+ [0-9]+ samples of' "$from"

refused "shared work without" \
    'recorded with --dsgd-work=shared, and this run has own: give it' "replay:$dir/late.dsgd"
export DSGD_WORK=shared
refused "own work with shared" \
    'recorded with --dsgd-work=own, and this run has shared: give it' "replay:$dir/short.dsgd"
refused "dry" 'dry tells whom dynamic would have cut' dry
damaged "update contribution set part = 0 where step = 7" late
refused "parts of no size" 'step [67] does not tell of its parts' "$from"
damaged "update contribution set nth = 9 where step = 7 and nth = 0" late
refused "no order" 'not in the order of its parts' "$from"
damaged "update contribution set from_step = 1 where step = 7 and from_step = 6" late
refused "two steps late" 'what a worker contributed to step [67] is not of the step' "$from"
damaged "delete from contribution where step = 7 and nth = (select max(nth)
    from contribution where step = 7)" late
refused "a part is missing" 'in step 7 [0-9]+ samples of [0-9]+ workers contributed' "$from"
damaged "update contribution set part = 1 where from_step < step" late
refused "too many carried" 'too many that were carried' "$from"
damaged "alter table contribution drop column part" late
refused "an old record" 'does not tell of its parts: an older version' "$from"
tap_done
