#!/bin/bash
# The dynamic cutoff on a real cluster, with a co-tenant that comes and goes:
# beside full, from the same cluster.  DSGD_TEST_EPOCHS makes the trainings longer
# than one epoch, DSGD_TEST_STATIC="7 6 5" has static counts too.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
unset DSGD_TEST_CLUSTER
model=$srcdir/model/default.safetensors
[[ -f $model ]] || cannot "$model is not there"
records=$cluster/records
cluster_start_plugin "record_dir=$records model=$model" -N 4 -v "$srcdir"
tenant=
at_exit end_tenant

epochs=${DSGD_TEST_EPOCHS:-1}

# end_tenant: with what it has just started.
end_tenant() {
    [[ $tenant ]] || return
    kill -- "-$tenant"
    wait "$tenant"
    tenant=
} 2>/dev/null

# train MODE [OPTION]...: so many epochs while the co-tenant of n3 comes and
# goes; the path of the record in $record.
train() {
    local noise
    set -m # a process group
    (
        while sleep 4; do
            noise=$(mc noise n3)
            sleep 5
            mc noise stop "$noise"
        done
    ) >/dev/null 2>&1 &
    tenant=$!
    set +m
    job srun -N4 --ntasks-per-node=2 --dsgd-cutoff="$1" \
        "$builddir/dsgd-train" --model cnn --batch 32 --micro-batches 8 \
        --epochs "$epochs" --progress none "${@:2}" >"$shared/out" 2>&1
    rc=$?
    end_tenant
    mc noise stop >/dev/null 2>&1
    record=$(find "$records" -name '*.dsgd' -printf '%T@ %p\n' | sort -n |
        tail -n 1 | cut -d' ' -f2-)
}
sql() { sqlite3 "$record" "$1"; }
rate() { sql 'select sum(samples) / sum(publish_s) from step where step > 10'; }

best=0
read -ra static <<<"${DSGD_TEST_STATIC:-}"
for mode in full "${static[@]/#/static:}"; do
    train "$mode"
    is "$mode: exit code" $rc 0
    this=$(rate)
    diag "$mode: $this unique samples/s"
    best=$(awk -v a="$best" -v b="$this" 'BEGIN { print (a > b ? a : b) }')
    [[ $mode == full ]] && full=$this
done
train dynamic
is "dynamic: exit code" $rc 0 || diag "$(tail "$shared/out")"
dynamic=$(rate)
diag "dynamic: $dynamic unique samples/s"
diag "hidden, tick (us, median): $(sql 'select hidden_us, tick_us from decision order by hidden_us limit 1 offset (select count(*) / 2 from decision)')"
at_least "dynamic is no slower than full" "$dynamic" "$full"
diag "dynamic / best fixed count: $(awk -v a="$dynamic" -v b="$best" 'BEGIN { print a / b }')"
is "replicas are identical" "$(sql 'select count(*) from (select step from
    checksum group by step having count(distinct value) > 1)')" 0
is "each sample once an epoch" "$(sql 'select sum(samples) from step')" $((60000 * epochs))
at_least "every step has its decision" "$(sql 'select count(*) from decision')" \
    "$(sql 'select count(*) - 5 from step')"

# What the nodes saw of others, in mid-run.
others() { # NODE: largest share of its CPU time that others used
    sql "select max(value) from telemetry join node using (node)
        where step > 0 and telemetry.name = 'other_cpu' and node.name = '$1'"
}
at_least "n3 saw its co-tenant" "$(others n3)" 0.5
at_most "n1 saw none" "$(others n1)" 0.4

train dry --max-steps 100
is "dry: exit code" $rc 0
is "dry cuts nobody" "$(sql 'select count(*) from step where contributors < 8
    and epoch_end = 0 and samples = 256')" 0
at_least "and says what would have been saved" \
    "$(sql 'select count(*) from decision where would < 8')" 1

job srun -N1 --dsgd-cutoff=dynamic --dsgd-model=/etc/passwd \
    "$builddir/dsgd-train" --max-steps 5 >"$shared/out" 2>&1
is "a file that is no model: exit code" $? 6
like "it is named, and the option" "$(cat "$shared/out")" \
    '--dsgd-model: /etc/passwd'
tap_done
