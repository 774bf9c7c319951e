#!/bin/bash
# dsgd-train on a real cluster: stragglers that stop, what waiting costs, and
# what a user sees when something is wrong.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
unset DSGD_TEST_CLUSTER # /dev/shm is filled here
records=$cluster/records
cluster_start_plugin "record_dir=$records" -N 4
data=/usr/share/datasets/fashion-mnist
train="$builddir/dsgd-train --model mlp"
four="srun -N4 --ntasks-per-node=2"
out=$shared/out

# run_job CMD...: as the user; output in $seen, exit code in $rc.
run_job() {
    seen=$(job "$@" 2>&1)
    rc=$?
}
# last_record: the newest record of the job user.
last_record() { find "$records" -name '*.dsgd' -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-; }
sql() { sqlite3 "$(last_record)" "$1"; }
report() { "$builddir/dsgd-report" "$(last_record)"; }

# pid_of HOST RANK: inside HOST.
pid_of() {
    # shellcheck disable=SC2016
    mc exec "$1" sh -c 'for p in $(pgrep -x dsgd-train); do
        tr "\0" "\n" </proc/$p/environ | grep -qx "SLURM_PROCID='"$2"'" && echo $p
    done' | tail -n 1
}
steps_reached() { (($(grep -c '' "$shared/curve") > $1)); }
# start_training ARG...: in the background; returns once it is under way.
start_training() {
    rm -f "$shared/curve"
    job env "${with[@]}" $four "$@" >"$out" 2>&1 &
    training=$!
    await 60 steps_reached 60
}
nothing_left() {
    local host left=
    for host in n1 n2 n3 n4; do
        left+=$(mc exec "$host" sh -c 'ls /dev/shm; pgrep -x dsgd-train')
    done
    [[ -z $left ]] || { echo "left: $left"; return 1; }
}
same_replicas() { # every boundary's checksums are one value
    [[ $(sql 'select count(*) from (select step from checksum group by step having count(distinct value) > 1)') == 0 ]] &&
        (($(sql 'select count(*) from checksum') > 0))
}

# --- a worker that stops: not its node's first, not rank 0 ---

with=(DSGD_HARD_TIMEOUT=2)
long=(--epochs 4 --batch 32 --loss-curve "$shared/curve" --progress plain)
# shellcheck disable=SC2086
start_training --dsgd-cutoff=static:6 $train "${long[@]}"
mc exec n3 kill -STOP "$(pid_of n3 5)"
wait "$training"
is "static, worker 5 stopped: exit code 0" $? 0
is "every sample once an epoch" \
    "$(sql 'select sum(samples) from step')" 240000
is "the record is complete" "$(sql 'select completed from job')" 1
is "and knows when worker 5 was lost" \
    "$(sql "select count(*) from event where kind = 'lost' and worker = 5")" 1
ok "the replicas of those who live are identical" same_replicas
like "the report says who was left behind" "$(report)" 'Worker 5 .*left behind'
ok "nothing is left on any node" nothing_left

# --- the first worker of a node: its node's gradients ---

# shellcheck disable=SC2086
start_training --dsgd-cutoff=static:6 $train "${long[@]}" --epochs 12
first=$(pid_of n3 4)
mc exec n3 kill -STOP "$first"
await 30 sh -c "grep -c , $shared/curve | awk '{ exit !(\$1 > 900) }'"
ok "node's first worker stopped: the others go on" steps_reached 900
mc exec n3 kill -CONT "$first"
wait "$training"
is "continued, it ends: exit code 0" $? 0
is "no sample lost or doubled" "$(sql 'select sum(samples) from step')" 720000
ok "replicas are identical" same_replicas
back=$(sql "select count(*) from event where kind = 'back' and worker in (4, 5)")
at_least "both workers of the node are heard of again" "$back" 2
ok "nothing is left on any node" nothing_left

# --- rank 0: the job pauses ---

# shellcheck disable=SC2086
start_training --dsgd-cutoff=static:6 $train "${long[@]}"
first=$(pid_of n1 0)
mc exec n1 kill -STOP "$first"
sleep 1
before=$(grep -c '' "$shared/curve")
sleep 4
is "rank 0 stopped: the job pauses" "$(grep -c '' "$shared/curve")" "$before"
mc exec n1 kill -CONT "$first"
wait "$training"
is "continued, it goes on: exit code 0" $? 0
is "no sample lost or doubled" "$(sql 'select sum(samples) from step')" 240000
is "nobody was thought lost for it" \
    "$(sql "select count(*) from event where kind = 'lost'")" 0
ok "replicas are identical" same_replicas

# --- what waiting costs: 16 workers, one of them slow ---

job srun -N4 --ntasks-per-node=4 "$builddir/tests/mpi/toy" \
    -s 15:14 -e 1 -b 100 -n 1600 -q >"$out" 2>&1 &
waiting=$!
sleep 6
declare -A ticks
for pid in $(pgrep -f "^$builddir/tests/mpi/(.libs/)?(lt-)?toy"); do
    ticks[$pid]=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
done
sleep 5
worst=0
for pid in "${!ticks[@]}"; do
    now=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
    share=$(((now - ticks[$pid]) * 100 / (5 * $(getconf CLK_TCK))))
    ((share > worst)) && worst=$share
done
is "16 workers on 4 nodes wait for one" "${#ticks[@]}" 16
at_most "and none uses more than 5 % of a core" "$worst" 5
wait $waiting
is "until it is through" $? 0

# --- errors ---

# refuses NAME CODE REGEX CMD...
refuses() {
    local name=$1 code=$2 text=$3
    shift 3
    run_job "$@"
    like "$name: a clear error" "$seen" "$text"
    if [[ $code == any ]]; then
        ((rc != 0))
        tap_result $? "$name: fails"
    else
        is "$name: exit code" "$rc" "$code"
    fi
}
# shellcheck disable=SC2086
{
    refuses "unknown mode" 255 '"dynmic" is none of full\|static:K' \
        $four --dsgd-cutoff=dynmic $train
    refuses "static:0" 255 'at least 1' $four --dsgd-cutoff=static:0 $train
    refuses "static:200%" 255 'at most 100' $four --dsgd-cutoff=static:200% $train
    refuses "K larger than the ranks" any 'more workers than the 8' \
        $four --dsgd-cutoff=static:9 $train
    refuses "dynamic without a model" any 'none is installed' \
        $four --dsgd-cutoff=dynamic $train
    refuses "missing data folder" any '/nonexistent' \
        $four $train --data /nonexistent
    refuses "singletons" any '--mpi=pmix' $four --mpi=none $train
}
mkdir -p "$shared/cut"
cp "$data"/* "$shared/cut/"
gunzip -c "$data/train-images-idx3-ubyte.gz" | head -c 1000000 \
    >"$shared/cut/train-images-idx3-ubyte"
rm "$shared/cut/train-images-idx3-ubyte.gz"
# shellcheck disable=SC2086
refuses "truncated IDX file" any 'train-images-idx3-ubyte.*cut short' \
    $four $train --data "$shared/cut"

mc exec n2 sh -c 'fallocate -l $(($(stat -f -c "%a * %S" /dev/shm) - 4096)) /dev/shm/full'
# shellcheck disable=SC2086
refuses "full /dev/shm" any 'n2: /dev/shm: no room for' $four $train
mc exec n2 rm /dev/shm/full
ok "nothing is left on any node" nothing_left

mkdir -p "$shared/closed"
chmod 555 "$shared/closed"
# shellcheck disable=SC2086
run_job $four --dsgd-record="$shared/closed/sub" $train --max-steps 20
is "unwritable record directory: the training goes on" "$rc" 0
like "and warns" "$seen" 'warning: no record: .*closed/sub'

# --- a node without the plugin ---

echo >"$cluster/n3/slurm/plugstack.conf"
# shellcheck disable=SC2086
run_job $four --dsgd-cutoff=static:6 $train --max-steps 50
is "the plugin missing on n3: the training runs" "$rc" 0
is "with rank 0's cutoff" "$(sql 'select cutoff from job')" static:6

tap_done
