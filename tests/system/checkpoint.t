#!/bin/bash
# A job that is preempted and whose rank is killed, and that requeues itself
# with the script that is shipped; a replay; and a disk that is full.
#
# DSGD_TEST_KILLS says how often a rank is killed, DSGD_TEST_SEED which.

# shellcheck disable=SC2154
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
unset DSGD_TEST_CLUSTER # jobs are requeued at once here
# A requeued job waits until its old credential has expired, and the scheduler
# looks for jobs whose time has come once a minute, by default.
cluster_start -N 2 -o AuthInfo=cred_expire=5 \
    -o SchedulerParameters=batch_sched_delay=0,sched_interval=1
dir=$shared/train
out=$dir/out
kills=${DSGD_TEST_KILLS:-1}
RANDOM=${DSGD_TEST_SEED:-1}
# Four ranks that sleep 30 ms a step, 100 steps an epoch.  Rank 0 says how often
# each sample was in the means that its state is made of.
epochs=$((3 + kills / 2))
samples=$((epochs * 3200))
toy=("$builddir/tests/mpi/toy" -t .03 -e "$epochs" -n 3200 -b 8)
once="samples $samples deviation 0.000"
job mkdir "$dir"
cp "$srcdir/etc/dsgd-requeue.sbatch" "$shared/"

states() { grep -o 'state .*' "$1" | sort -u; }
state_of() { job squeue -h -o %T -j "$1" 2>/dev/null; }
in_state() { [[ $(state_of "$1") == "$2" ]]; }
gone() { job squeue -h -j "$1" >"$shared/queue" && ! grep -q . "$shared/queue"; }
sql() { sqlite3 "$dir/$id.0.$1.dsgd" "$2"; }
newest() { find "$dir/ck/$id" -name 'step-*.ckpt' | sort | tail -n 1; }
kept() { basename "$(newest)" .ckpt | sed 's/step-0*//'; }
kept_beyond() { (($(kept) > $1)); }

# --- a training in one go, to compare with ---

job srun -N2 --ntasks-per-node=2 --chdir="$dir" "${toy[@]}" >"$shared/whole" 2>&1
is "a run without interruption" $? 0
like "uses every sample once an epoch" "$(cat "$shared/whole")" "$once"

# --- a job that requeues itself ---

id=$(job env DSGD_CHECKPOINT_DIR="$dir/ck/%j" DSGD_CHECKPOINT_STEPS=20 \
    DSGD_RECORD="$dir" sbatch --parsable --chdir="$dir" --output="$out" \
    --nodes=2 --ntasks-per-node=2 --time=10 --signal=USR1@120 \
    "$shared/dsgd-requeue.sbatch" "${toy[@]}")
like "the job is submitted" "$id" '^[0-9]+$'
await 60 kept_beyond 30
job scancel --signal=USR1 "$id"
await 30 in_state "$id" PENDING
like "signalled, it ends early and is requeued" "$(cat "$out")" \
    'exit code 14 after restart 0: requeued'
first=$(kept)
is "its last step is the newest checkpoint's" \
    "$(sql 0 'select max(step) from step')" "$first"
last=$first
for ((kill = 1; kill <= kills; kill++)); do
    await 60 kept_beyond $((last + 20))
    which=(-n -o)
    mc exec n$((2 - (kill + 1) / 2 % 2)) pkill -KILL "${which[RANDOM % 2]}" -x toy
    await 30 in_state "$id" PENDING
    like "rank killed, $kill of $kills: requeued as well" "$(cat "$out")" \
        "exit code 1[0-9]{2} after restart $kill: requeued"
    last=$(kept)
    at_most "no more is lost than an interval, and what was being written" \
        "$(($(sql $kill 'select max(step) from step') - last))" 40
done
await 60 gone "$id"

like "every sample was used once an epoch" "$(cat "$out")" "$once"
sed -n "/run $id.0.$kills left it/,\$p" "$out" >"$shared/final"
is "the state is that of the run in one go" "$(states "$shared/final")" \
    "$(states "$shared/whole")"
final=$((kills + 1))
is "the last run went on from the newest checkpoint" \
    "$(sql $final 'select resumed_step from job')" "$last"
is "of the run before" "$(sql $final 'select resumed_from from job')" \
    "$id.0.$kills"
like "and says so in a line" "$(cat "$out")" \
    "going on from step-0*$last.ckpt after step $last, in epoch [0-9]+, as run $id.0.$kills left it"
used=$(sql $final 'select sum(samples) from step')
for ((run = 0; run <= kills; run++)); do
    next=$(sql $((run + 1)) 'select resumed_step from job')
    used=$((used + $(sql $run "select coalesce(sum(samples), 0) from step
        where step <= $next")))
done
is "their records say it, too" "$used" "$samples"
is "replicas agree" "$(sql $final 'select count(*) from (select step from checksum
    group by step having count(distinct value) > 1)')" 0
# It may have been killed before that checksum was in its record.
after=$(sql $final "select distinct value from checksum where step = $last")
before=$(sql $kills "select distinct value from checksum where step = $last")
is "and with the run before, after the step between them" "$after" \
    "${before:-$after}"

# --- what is cancelled stays so ---

id=$(job env DSGD_CHECKPOINT_DIR="$dir/ck/%j" DSGD_CHECKPOINT_STEPS=20 \
    sbatch --parsable --chdir="$dir" --output="$out" --nodes=2 \
    --ntasks-per-node=2 --time=10 "$shared/dsgd-requeue.sbatch" \
    "${toy[@]}" -e 30)
await 60 kept_beyond 30
job scancel "$id"
await 30 gone "$id"
like "a cancelled job is not requeued" \
    "$(job scontrol show job "$id")" 'JobState=CANCELLED.* Restarts=0 '

# --- a run with a straggler and a stopped worker, and its replay ---

toy=("$builddir/tests/mpi/toy" -t .01 -e 2 -n 3200 -b 8)
job env DSGD_CUTOFF=static:3 DSGD_RECORD="$dir/stop.dsgd" srun -N2 \
    --ntasks-per-node=2 "${toy[@]}" -s 1:.02 >"$shared/stop" 2>&1 &
running=$!
await 40 test -e "$dir/stop.dsgd"
mc exec n2 pkill -STOP -n -x toy
sleep 1
mc exec n2 pkill -CONT -n -x toy
wait $running
is "static:3 on two nodes: exit code" $? 0
job env DSGD_CUTOFF=replay:"$dir/stop.dsgd" DSGD_RECORD="$dir/again.dsgd" \
    srun -N2 --ntasks-per-node=2 "${toy[@]}" >"$shared/again" 2>&1
is "its replay: exit code" $? 0
is "the same state" "$(states "$shared/again")" "$(states "$shared/stop")"
sums='select step, value from checksum group by step, value'
is "after each epoch" "$(sqlite3 "$dir/again.dsgd" "$sums")" \
    "$(sqlite3 "$dir/stop.dsgd" "$sums")"
is "of one value a step" "$(sqlite3 "$dir/again.dsgd" "$sums" | wc -l)" 2
job env DSGD_CUTOFF=replay:"$dir/stop.dsgd" DSGD_RECORD=off \
    srun -N2 -n4 --distribution=cyclic "${toy[@]}" >"$shared/again" 2>&1
like "on other places it is refused" "$(cat "$shared/again")" \
    'worker [0-9] was on node [0-9], and is on node [0-9]: a replay needs the same placement'

# --- a disk that fills up ---

small=$dir/small
toy=("$builddir/tests/mpi/toy" -t .005 -e 1 -n 3200 -b 8 -g 10000)
mc exec n1 sh -c "mkdir -p $small && mount -t tmpfs -o size=400k none $small && chmod 777 $small"
job env DSGD_CHECKPOINT_DIR="$small/ck" DSGD_CHECKPOINT_STEPS=25 \
    DSGD_CHECKPOINT_KEEP=9 srun -N2 --ntasks-per-node=2 --chdir="$dir" \
    "${toy[@]}" >"$shared/full" 2>&1
is "a disk that fills up: the training goes on" $? 0
like "with a warning" "$(cat "$shared/full")" \
    'warning: no checkpoint: .*No space left on device: the older ones are kept'
is "three were written, nothing is half-written" \
    "$(mc exec n1 sh -c "ls -A $small/ck" | tr '\n' ' ')" \
    "step-000000000025.ckpt step-000000000050.ckpt step-000000000075.ckpt "
job env DSGD_CHECKPOINT_DIR="$small/ck" srun -N2 --ntasks-per-node=2 \
    --chdir="$dir" "${toy[@]}" >"$shared/full" 2>&1
is "they are good" $? 0
like "and used" "$(cat "$shared/full")" 'going on from step-000000000075.ckpt'
like "to the end" "$(cat "$shared/full")" 'samples 3200 deviation 0.000'
mc exec n1 umount "$small"

tap_done
