#!/bin/bash
# Steps in parts, computed by whoever is free, on a real cluster: with a co-tenant
# on a node, with a worker that stops, and with faults at random moments every
# batch is of its nominal size, every sample counts once in its epoch, replicas
# are identical, and the model learns what it learns otherwise.
#
# DSGD_TEST_SEED repeats a run.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
toy=$builddir/tests/mpi/toy
audit=$builddir/tests/record_audit
seed=${DSGD_TEST_SEED:-$((SRANDOM % 100000))}
cluster_start_plugin "" -N 4
at_exit 'for host in n1 n2 n3 n4; do mc thaw $host; done'
diag "seed $seed"
RANDOM=$seed
four="srun -N4 --ntasks-per-node=2 --dsgd-parts=4"
batch=32
train="$builddir/dsgd-train --model mlp --batch $batch --epochs 2 --seed 3
    --train-samples 20000 --loss-curve $shared/curve --progress none"

sql() { sqlite3 "$record" "$1"; }
# pid_of HOST RANK NAME: inside HOST.
pid_of() {
    # shellcheck disable=SC2016
    mc exec "$1" sh -c 'for p in $(pgrep -x '"$3"'); do
        tr "\0" "\n" </proc/$p/environ | grep -qx "SLURM_PROCID='"$2"'" && echo $p
    done' | tail -n 1
}
steps_reached() { (($(grep -c '' "$shared/curve") > $1)); }
# start_training NAME OPTION...: in the background, with its record.
start_training() {
    record=$shared/$1.dsgd
    shift
    rm -f "$shared/curve"
    # shellcheck disable=SC2086
    job timeout -k 5 100 env "${with[@]}" $four --dsgd-record="$record" "$@" \
        $train --summary "$shared/summary" >"$shared/out" 2>&1 &
    training=$!
}
accuracy() {
    sed -n 's/.*"test_accuracy": *\([0-9.]*\).*/\1/p' "$shared/summary" |
        tail -n 1
}
# adds_up NAME: of the run of which $record is.
adds_up() {
    like "$1: every sample once an epoch, replicas identical" \
        "$(job "$audit" "$record" 2>&1)" \
        'epochs 2 .* doubled 0 missing 0 wrong 0 differ 0'
    is "$1: the record is complete" "$(sql 'select completed from job')" 1
}
# The batches that are not those of all who live, epochs' last ones aside.
odd_batches() {
    sql "select count(*) from step where samples <> $batch * alive
        and not epoch_end"
}

# --- as it should be, and with a co-tenant on a node ---

with=(DSGD_CONF=/dev/null)
start_training own
wait "$training"
is "own work: exit code 0" $? 0
own=$(accuracy)

start_training shared --dsgd-work=shared
wait "$training"
is "shared work: exit code 0" $? 0
adds_up "shared"
is "shared: every batch has its size" "$(odd_batches)" 0
is "shared: as few steps as with own work" "$(sql 'select count(*) from step')" \
    158
is "the record says how" "$(sql "select group_concat(value) from (select value
    from setting where name in ('work', 'parts') order by name)")" 4,shared
ok "shared: accuracy $(accuracy) is that of own work, $own" \
    awk "BEGIN { exit !($(accuracy) > $own - .03 && $own > .7) }"

noise=$(mc noise n3 2)
start_training noise --dsgd-work=shared
wait "$training"
is "a co-tenant on n3: exit code 0" $? 0
mc noise stop "$noise"
adds_up "co-tenant"
is "co-tenant: every batch has its size" "$(odd_batches)" 0
share() { # NODE: samples computed there
    sql "select sum(samples) from contribution join worker using (worker)
        where node = $1"
}
at_most "co-tenant: n3 computes less than n4" "$(share 2)" "$(share 3)"

# --- late parts carried, and the run done again ---

parameters() {
    sed -n 's/.*"parameter_checksum": *"\([^"]*\)".*/\1/p' "$shared/summary"
}
noise=$(mc noise n2 2)
start_training carried --dsgd-work=shared --dsgd-late=carry
wait "$training"
is "late parts carried: exit code 0" $? 0
mc noise stop "$noise"
adds_up "carried"
is "carried: every batch has its size" "$(odd_batches)" 0
at_least "carried: parts that counted in the next step" \
    "$(sql 'select count(*) from contribution where from_step < step')" 5
first=$(parameters)
start_training again --dsgd-work=shared --dsgd-parts=2 \
    --dsgd-cutoff="replay:$record"
wait "$training"
is "its replay, without the co-tenant: exit code 0" $? 0
is "its replay: the same parameters" "$(parameters)" "$first"
adds_up "replay"

# --- sized by the timing model, and done again ---

firsts() { sql 'select count(*) from contribution where part > 4'; }
rows() { sql 'select * from contribution order by step, worker, nth' | md5sum; }

noise=$(mc noise n3 2)
start_training sized --dsgd-work=shared --dsgd-cutoff=dynamic --dsgd-parts=8 \
    --dsgd-model="$srcdir/model/default.safetensors"
wait "$training"
is "sized: exit code 0" $? 0 || diag "$(tail "$shared/out")"
mc noise stop "$noise"
adds_up "sized"
is "sized: every batch has its size" "$(odd_batches)" 0
is "sized: as few steps as with own work" "$(sql 'select count(*) from step')" \
    158
is "sized: the decisions are recorded, for all but the first steps and the \
ends of epochs" "$(sql "select count(*) > 130 from decision
    where policy = 'shares' and planned_s > 0 and would_s > 0")" 1
is "sized: the record says with what slack" \
    "$(sql "select value from setting where name = 'batch_slack'")" 0%
# Parts of one worker that follow each other are one row: these are more.
at_most "sized: fewer parts than there are otherwise" \
    "$(sql 'select count(*) from contribution')" $((158 * 8 * 6))
# How many, and how large, is a matter of how busy the machine is: without sizes
# there is none.
at_least "sized: first parts, of more than an eighth of a batch" \
    "$(firsts)" 20
first=$(parameters)
sized=$(rows)
start_training sized-again --dsgd-work=shared --dsgd-cutoff="replay:$record"
wait "$training"
is "its replay, without the co-tenant: exit code 0" $? 0
is "its replay: the same parameters" "$(parameters)" "$first"
is "its replay: the same parts" "$(rows)" "$sized"
adds_up "replay of sized"

# A first part is not kept for the next step; single parts are.
noise=$(mc noise n2 2)
start_training both --dsgd-work=shared --dsgd-cutoff=dynamic --dsgd-parts=8 \
    --dsgd-late=carry --dsgd-model="$srcdir/model/default.safetensors"
wait "$training"
is "sized and carried: exit code 0" $? 0 || diag "$(tail "$shared/out")"
mc noise stop "$noise"
adds_up "sized and carried"
is "sized and carried: every batch has its size" "$(odd_batches)" 0
at_least "sized and carried: first parts" "$(firsts)" 20
at_least "sized and carried: parts that counted in the next step" \
    "$(sql 'select count(*) from contribution where from_step < step')" 5
is "sized and carried: of these no first parts" "$(sql 'select count(*)
    from contribution where from_step < step and part > 4')" 0
first=$(parameters)
start_training both-again --dsgd-work=shared --dsgd-cutoff="replay:$record"
wait "$training"
is "its replay: exit code 0" $? 0
is "its replay: the same parameters" "$(parameters)" "$first"
adds_up "replay of sized and carried"

# --- a worker that is stopped for a while, and one for good ---

# The loss curve is written in pieces of some 140 steps; an epoch has 469.
batch=16
train+=" --batch $batch --train-samples 60000"
slowly=$(printf '%s:2,' {0..7})
train+=" --straggle ${slowly%,}"
with=(DSGD_CONF=/dev/null DSGD_HARD_TIMEOUT=20)
start_training stopped --dsgd-work=shared
await 60 steps_reached 5
pid=$(pid_of n3 5 dsgd-train)
mc exec n3 kill -STOP "$pid"
at=$(grep -c '' "$shared/curve")
ok "a worker stops: the others go on" await 20 steps_reached $((at + 20))
mc exec n3 kill -CONT "$pid"
wait "$training"
is "it goes on: exit code 0" $? 0
adds_up "stopped for a while"
is "stopped for a while: every batch has its size" "$(odd_batches)" 0
is "stopped for a while: nobody was lost" \
    "$(sql "select count(*) from event where kind = 'lost'")" 0

with=(DSGD_CONF=/dev/null DSGD_HARD_TIMEOUT=1)
start_training lost --dsgd-work=shared
await 60 steps_reached 5
mc exec n3 kill -STOP "$(pid_of n3 5 dsgd-train)"
wait "$training"
is "a worker stops for good: exit code 0" $? 0
adds_up "stopped for good"
is "stopped for good: it was lost" "$(sql "select count(*) from event
    where kind = 'lost' and worker = 5")" 1

# --- faults at random moments ---

# seconds TENTHS: a random time, up to so many tenths of a second.
seconds() {
    local t=$((RANDOM % $1 + 1))
    echo "$((t / 10)).$((t % 10))"
}
record=$shared/faults.dsgd
job timeout -k 5 100 env DSGD_CONF=/dev/null DSGD_HARD_TIMEOUT=1 $four \
    --dsgd-work=shared --dsgd-record="$record" "$toy" -n 600 -g 600 -b 8 -e 60 \
    -t 0.004 -r "$seed" >"$shared/out" 2>&1 &
training=$!
for fault in "freeze n2" "stop n4 7" "freeze n1" "stop n3 4" "stop n1 1"; do
    read -r kind host rank <<<"$fault"
    sleep "$(seconds 5)"
    if [[ $kind == freeze ]]; then
        mc freeze "$host"
        sleep "$(seconds 20)"
        mc thaw "$host"
    elif pid=$(pid_of "$host" "$rank" toy) && [[ $pid ]]; then
        mc exec "$host" kill -STOP "$pid"
        sleep "$(seconds 20)"
        mc exec "$host" kill -CONT "$pid"
    fi
done
wait "$training"
is "random faults: exit code 0" $? 0 || diag "$(tail "$shared/out")"
is "random faults: identical replicas" \
    "$(grep -o 'state .*' "$shared/out" | sort -u | wc -l)" 1
like "random faults: every sample once an epoch" "$(<"$shared/out")" \
    'samples 36000 deviation 0\.000'
like "random faults: so says the record" "$(job "$audit" "$record" 2>&1)" \
    'epochs 60 .* doubled 0 missing 0 wrong 0 differ 0'
is "random faults: no batch is larger than that of all who live" \
    "$(sql 'select count(*) from step where samples > 64')" 0

# --- what has no meaning ---

# shellcheck disable=SC2086
seen=$(job $four --dsgd-work=shared --dsgd-cutoff=static:3 $train 2>&1)
like "a cutoff: a clear error" "$seen" '--dsgd-work: shared .*must be full'
for host in n1 n2 n3 n4; do
    is "nothing is left on $host" \
        "$(mc exec "$host" sh -c 'ls /dev/shm; pgrep -x dsgd-train; pgrep -x toy')" ''
done
tap_done
