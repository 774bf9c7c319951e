#!/bin/bash
# dsgd-run on a real cluster: many workers a node, workers that are killed all
# the time, a dsgd-run that is killed.
# shellcheck disable=SC2086
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
records=$cluster/records
cluster_start_plugin "record_dir=$records" -N 4
run=$builddir/dsgd-run
sleeper=$builddir/tests/run/sleeper
four="srun -N4 --ntasks-per-node=1"

# run_job CMD...: as the user; output in $seen, exit code in $rc.
run_job() {
    seen=$(job timeout -k 5 100 "$@" 2>&1)
    rc=$?
}
last_record() { find "$records" -name '*.dsgd' -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-; }
sql() { sqlite3 "$(last_record)" "$1"; }
same_replicas() { # every boundary's checksums are one value
    [[ $(sql 'select count(*) from (select step from checksum group by step having count(distinct value) > 1)') == 0 ]] &&
        (($(sql 'select count(*) from checksum') > 0))
}
# workers HOST PROGRAM: pids inside HOST of what dsgd-run has started.
workers() {
    # shellcheck disable=SC2016
    mc exec "$1" sh -c 'for p in $(pgrep -f "/'"$2"'( |\$)"); do
        tr "\0" "\n" </proc/$p/environ 2>/dev/null |
            grep -q "^DSGD_RUN_RANK=" && echo $p
    done'
}
nothing_left() {
    local host left=
    for host in n1 n2 n3 n4; do
        left+=$(mc exec "$host" sh -c 'ls /dev/shm | grep dsgd
            pgrep -l "dsgd-run|dsgd-train|sleeper"')
    done
    [[ -z $left ]] || { echo "left: $left"; return 1; }
}

# --- 158 workers, as many as a 40-core node each ---

run_job $four --dsgd-cutoff=static:90% "$run" -w 39,39,40,40 "$sleeper" \
    -t .1 -n 3160 -b 4 -e 2
is "158 workers: exit code" "$rc" 0
is "all come to the end" "$(grep -c 'of 158 on 4 nodes' <<<"$seen")" 158
is "with one state" \
    "$(grep -o 'state [0-9a-f]*' <<<"$seen" | sort -u | wc -l)" 1
is "every sample once an epoch" \
    "$(grep -c 'deviation 0.0[01]' <<<"$seen")" 158
is "their nodes have 39, 39, 40 and 40" \
    "$(sql 'select group_concat(n) from (select count(*) n from worker group by node order by node)')" \
    39,39,40,40
is "the option of srun counts" "$(sql 'select cutoff from job')" static:90%

# --- all workers of a node are killed, then one every second or so ---

epochs=30 # so that all are back before it ends
before=$(last_record)
newest() { [[ $(last_record) != "$before" ]] && (($(sql 'select count(*) from step') > 0)); }
job $four --dsgd-cutoff=full "$run" -w 4 "$builddir/dsgd-train" --model mlp \
    --epochs $epochs --batch 32 --progress none --summary "$shared/summary" >"$shared/out" 2>&1 &
training=$!
await 30 newest
backs() { sql "select count(*) from event where kind = 'back'"; }
all_back() { (($(backs) >= killed)); }
# shellcheck disable=SC2207
pids=($(workers n3 dsgd-train))
killed=${#pids[@]}
mc exec n3 kill -KILL "${pids[@]}"
for host in n2 n3 n1 n4 n2; do
    sleep 1
    await 20 all_back # one that is killed before it is back is not back twice
    # shellcheck disable=SC2207
    pids=($(workers $host dsgd-train))
    ((${#pids[@]})) || break
    mc exec $host kill -KILL "${pids[RANDOM % ${#pids[@]}]}" && ((++killed))
done
wait $training
is "workers killed: exit code" $? 0
is "there were nine" "$killed" 9
is "every sample was used once an epoch" \
    "$(sql 'select sum(samples) from step')" $((epochs * 60000))
is "the record is complete" "$(sql 'select completed from job')" 1
at_least "it knows of those that died" \
    "$(sql "select count(*) from event where kind = 'lost' and text like 'killed by signal 9%'")" 9
at_least "and that others took their places" "$(backs)" 9
ok "replicas are identical" same_replicas
accuracy=$(sed -n 's/.*"test_accuracy": \([0-9.]*\).*/\1/p' "$shared/summary" | tail -n 1)
at_least "the accuracy is the usual one" "$accuracy" .87
like "a line a node names them" "$(<"$shared/out")" \
    'dsgd-run: n3: worker 8 started again [0-9] times?;'

# --- a dsgd-run is killed: its workers die with it, and the job step ---

before=$(last_record)
job $four -K --dsgd-cutoff=full "$run" -w 3 "$sleeper" -t .02 -e 10000 >"$shared/out" 2>&1 &
training=$!
await 30 newest
mc exec n2 sh -c 'kill -KILL $(pgrep -x dsgd-run)'
await 5 sh -c "[ -z \"\$($minicluster -d $cluster exec n2 pgrep sleeper)\" ]"
is "dsgd-run killed on n2: its workers are gone" "$(workers n2 sleeper)" ""
wait $training
rc=$?
((rc != 0))
tap_result $? "and the job step ends with an error"
await 10 nothing_left
ok "nothing is left on any node" nothing_left

# --- errors ---

run_job srun -N4 --ntasks-per-node=2 "$run" -w 2 "$sleeper"
is "two tasks a node: exit code" "$rc" 9
like "a clear error" "$seen" 'n1 has 2 tasks of this job step; start one'
run_job $four "$run" -w 2,2 "$sleeper"
is "a list that is too short: exit code" "$rc" 2
run_job $four "$run" -w 2 sh -c '[ $DSGD_RUN_RANK != 5 ] || exit 3
    exec '"$sleeper -t .01"
is "a worker that fails before the run is open: exit code" "$rc" 3
like "is named" "$seen" 'worker 5 on n3 ended with exit code 3'
ok "nothing is left on any node" nothing_left

tap_done
