#!/bin/bash
# Checkpoints of dsgd-train under mpirun: what goes on from one ends with the
# same bits as what was never interrupted.
# shellcheck source=tests/mpi/lib.sh
. "$(dirname "$0")/lib.sh"
ck=$dir/ck
need "$data" dataset-fashion-mnist

# begin NAME ARGUMENT...: a training in the background; $mpirun is its launcher.
begin() {
    local name=$1
    shift
    rm -f "$dir/curve"
    DSGD_RECORD=$dir/$name.dsgd timeout -k 5 60 mpirun --oversubscribe -n 3 \
        "$DSGD_BUILDDIR/dsgd-train" --model mlp --train-samples 6000 \
        --epochs 3 --micro-batches 2 --progress none --straggle 2:12 \
        --summary "$dir/$name.json" --loss-curve "$dir/curve" "$@" \
        >"$dir/$name.out" 2>&1 &
    launched=$!
}
# finish: wait for it; its exit code in $rc.
finish() {
    wait "$launched"
    rc=$?
}
train() {
    begin "$@"
    finish
}
# reach LINES: wait until the training has done so many steps.
reach() {
    local tries=0
    until [ -e "$dir/curve" ] && [ "$(wc -l <"$dir/curve")" -gt "$1" ]; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || return 1
        sleep 0.05
    done
}
# ranks: the processes of the ranks, in order.
ranks() { pgrep -P "$(pgrep -P "$launched")"; }
said() { grep '^dsgd-train: ' "$dir/$1.out"; }
value() { sed -n "s/.*\"$2\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$dir/$1.json" | head -1; }
sql() { sqlite3 "$dir/$1.dsgd" "$2"; }
newest() { find "$ck" -name 'step-*.ckpt' | sort | tail -n 1; }
# lineage RUN...: samples contributed by the steps of runs that others went on
# from; each counts up to where the next one begins.
lineage() {
    local total=0 run last
    while [ $# -gt 0 ]; do
        run=$1
        shift
        last=${1:+$(sql "$1" 'select resumed_step from job')}
        total=$((total + $(sql "$run" "select total(samples) from step
            where step <= ${last:-1e18}" | cut -d. -f1)))
    done
    echo $total
}

train whole
is "a run without interruption" $rc 0
want=$(value whole parameter_checksum)

# SIGUSR1, as srun --signal sends it: a checkpoint, and a clean end.
begin first --checkpoint-dir "$ck" --checkpoint-steps 20
reach 50
kill -USR1 "$(pgrep -P $launched)"
finish
is "SIGUSR1: exit code" $rc 14
like "says what to do" "$(said first)" 'ended early, at a checkpoint: start again'
is "the record says why it ended" \
    "$(sql first "select count(*) from event where kind = 'preempted'")" 1
is "at the step of the newest checkpoint" \
    "$(sql first 'select max(step) from step')" \
    "$(basename "$(newest)" .ckpt | sed 's/step-0*//')"
is "three are kept" "$(find "$ck" -type f | wc -l)" 3

# A rank that is killed; the run goes on from the last checkpoint.
begin second --checkpoint-dir "$ck" --checkpoint-steps 20
reach 45
ranks | tail -n 1 | xargs kill -KILL
finish
ok "a killed rank ends the job ($rc)" test $rc -ne 0
like "the run before went on from the first" "$(said second)" \
    "going on from step-0*$(sql second 'select resumed_step from job').ckpt"
lost=$(($(sql second 'select max(step) from step') - \
    $(basename "$(newest)" .ckpt | sed 's/step-0*//')))
at_most "no more than two intervals are lost" $lost 40

# The newest is cut short, the one before has a flipped bit.
bad1=$(newest)
truncate -s -1 "$bad1"
bad2=$(find "$ck" -name 'step-*.ckpt' | sort | tail -n 2 | head -n 1)
printf '\x55' | dd of="$bad2" bs=1 seek=200000 conv=notrunc status=none
touch "$ck/step-000000009999.ckpt"
train third --checkpoint-dir "$ck" --checkpoint-steps 20
is "damaged ones: exit code" $rc 0
like "an empty file is named" "$(said third)" 'step-000000009999.ckpt: cut short'
like "what was cut short is named" "$(said third)" "$bad1: cut short: not used"
like "so is what has a flipped bit" "$(said third)" \
    "$bad2: damaged: the checksum of \"state\" does not match: not used"
is "the same bits as without interruption" "$(value third parameter_checksum)" \
    "$want"
is "every sample once an epoch, over the three runs" \
    "$(lineage first second third)" 18000
is "and the run counts them so" "$(value third unique_samples)" 18000
first_id=$(sql first "select job_id || '.' || step_id || '.' || restart from job")
is "the record names whose checkpoint it went on from" \
    "$(sql second 'select resumed_from from job')" "$first_id"
is "replicas agree at every checkpoint" \
    "$(sql third 'select count(*) from (select step from checksum
        group by step having count(distinct value) > 1)')" 0

# What ended goes on with more epochs, with fewer workers, or not at all.
train again --checkpoint-dir "$ck"
is "a run that had ended ends again" $rc 0
is "with the same bits" "$(value again parameter_checksum)" "$want"
rm "$ck/step-000000009999.ckpt"
train other --checkpoint-dir "$ck" --seed 2
is "another training: exit code" $rc 2
like "says so" "$(said other)" 'of another training.*directory of its own'

train closed --checkpoint-dir /proc/nowhere
is "a directory that can't be made: exit code" $rc 5
like "says so" "$(said closed)" 'checkpoint directory /proc/nowhere: No such file'
tap_done
