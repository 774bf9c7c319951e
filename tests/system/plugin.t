#!/bin/bash
# The plugin in a real Slurm cluster: every way to start a step, a node without
# the plugin or with a broken one, and what it costs.

# shellcheck disable=SC2016,SC2034,SC2154
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
unset DSGD_TEST_CLUSTER # plugstack.conf is changed here
need_slurm script
so=$builddir/plugin/spank_dsgd.so
[[ -f $so ]] || cannot "$so is not built"
cluster_start -N 4
export -n DSGD_SRCDIR DSGD_BUILDDIR DSGD_REQUIRE # minicluster hands on what it has

# A command that hangs is ended inside the cluster: an srun that is stuck keeps
# the pipe to this shell open, whatever becomes of its minicluster.
job() { mc run timeout -k 5 90 "$@"; }

# see NAME CONDITION: of $seen, mostly, which is shown when it does not hold.
see() {
    eval "$2"
    tap_result $? "$1" || diag "does not hold: $2" "$seen"
}
has() { grep -qF -e "$1" <<<"$seen"; }
lacks() { ! has "$1"; }
# count N TEXT: N lines of $seen contain TEXT.
count() { (($(grep -cF -e "$2" <<<"$seen") == $1)); }
# value NAME: of the last line "NAME=value" in $seen, behind "rank: " or not.
value() { sed -n "s/^\([0-9]*: \)\{0,1\}$1=//p" <<<"$seen" | tail -n 1; }

# in_job CMD...: as the user; all its output in $seen, its code in $rc.
in_job() {
    seen=$(job "$@" 2>&1)
    rc=$?
}
# script NAME: keep standard input as a script that every host can see.
script() {
    cat >"$shared/$1"
    chmod 755 "$shared/$1"
}
wait_job() { # id
    local deadline=$((SECONDS + 60))
    while [[ -n $(job squeue -h -j "$1" -o %T 2>/dev/null) ]]; do
        ((SECONDS < deadline)) || return 1
        sleep 0.2
    done
}
# batch ARG...: submit the script on standard input; its output in $seen.
batch() {
    local id
    script job.sh
    seen=$(job sbatch --parsable -D / -o "$shared/out" "$@" "$shared/job.sh" 2>&1)
    id=$(tail -n 1 <<<"$seen")
    [[ $id =~ ^[0-9]+$ ]] && wait_job "$id" && seen=$(cat "$shared/out")
}
# plugstack LINE HOST...: the hosts' whole plugstack.conf.
plugstack() {
    local line=$1 host
    shift
    for host; do
        echo "$line" >"$cluster/$host/slurm/.new"
        mv "$cluster/$host/slurm/.new" "$cluster/$host/slurm/plugstack.conf"
    done
}

all=(ctl n1 n2 n3 n4)
optional="optional $so"
plugstack "$optional" "${all[@]}"
script show <<'END'
#!/bin/sh
env | grep -E '^(DSGD|SLURM_(STEP_ID|PROCID|RESTART_COUNT|ARRAY_TASK_ID)=)'
END
show=$shared/show

# --- srun ---

in_job srun -N4 -l --dsgd-cutoff=static:3 --dsgd-min=2 --dsgd-model=m \
    --dsgd-record=off --dsgd-late=carry --dsgd-partial=discard \
    --dsgd-lr-scale=sqrt --dsgd-max-cuts=3 --dsgd-max-cut-share=20% \
    --dsgd-work=shared --dsgd-parts=6 --dsgd-batch-slack=2% "$show"
see "srun: every node's task gets the cutoff" \
    '((rc == 0)) && count 4 DSGD_LAUNCH_CUTOFF=static:3'
see "srun: and the other options" \
    'count 4 DSGD_LAUNCH_MIN=2 && count 4 DSGD_LAUNCH_MODEL=m &&
    count 4 DSGD_LAUNCH_RECORD=off && count 4 DSGD_LAUNCH_VERSION=1 &&
    count 4 DSGD_LAUNCH_LATE=carry && count 4 DSGD_LAUNCH_PARTIAL=discard &&
    count 4 DSGD_LAUNCH_LR_SCALE=sqrt && count 4 DSGD_LAUNCH_MAX_CUTS=3 &&
    count 4 DSGD_LAUNCH_MAX_CUT_SHARE=20% &&
    count 4 DSGD_LAUNCH_WORK=shared && count 4 DSGD_LAUNCH_PARTS=6 &&
    count 4 DSGD_LAUNCH_BATCH_SLACK=2%'
see "srun: and telemetry, and nothing else" \
    'count 4 "DSGD_LAUNCH_TELEMETRY=1;" && count 56 DSGD'
in_job srun -N1 "$show"
see "srun without the option: nothing" 'has SLURM_PROCID && lacks DSGD'
in_job env DSGD_CUTOFF=order DSGD_RULE=x srun -N1 "$show"
see "DSGD_CUTOFF is a way in, and is left alone" \
    'has DSGD_CUTOFF=order && has DSGD_RULE=x &&
    has DSGD_LAUNCH_TELEMETRY && lacks DSGD_LAUNCH_CUTOFF'
in_job srun -N1 --dsgd-cutoff=order --dsgd-cutoff=dry "$show"
see "given twice, the last counts" \
    'count 1 DSGD_LAUNCH_CUTOFF && has DSGD_LAUNCH_CUTOFF=dry'

modes='full|static:K|static:P%|order|dynamic|dry|replay:FILE'
for command in "srun -N1 --dsgd-cutoff=dynmic true" \
    "sbatch --dsgd-cutoff=dynmic --wrap=true" \
    "salloc --dsgd-cutoff=dynmic true"; do
    # shellcheck disable=SC2086
    in_job $command
    want="${command%% *}: error: --dsgd-cutoff: \"dynmic\" is none of $modes"
    see "${command%% *} --dsgd-cutoff=dynmic fails and lists the modes" \
        '((rc == 255)) && has "$want"'
done
script bad.sh <<'END'
#!/bin/sh
#SBATCH --dsgd-cutoff=static:200%
END
in_job sbatch "$shared/bad.sh"
see "#SBATCH --dsgd-cutoff=static:200% fails and says why" \
    '((rc == 255)) && has "\"static:200%\": the percentage must be"'
for bad in --dsgd-cutoff=static:0 --dsgd-min=-1 --dsgd-model= --dsgd-record= \
    --dsgd-late=never --dsgd-max-cut-share=0% \
    --dsgd-work=both --dsgd-parts=0 \
    --dsgd-batch-slack=100%; do
    in_job srun -N1 "$bad" true
    see "srun $bad fails and says why" \
        '((rc == 255)) && has "srun: error: ${bad%%=*}: \"${bad#*=}\""'
done
in_job srun --help
for option in cutoff=MODE min=N model=FILE 'record=DIR|off' late=MODE \
    partial=MODE lr-scale=MODE max-cuts=N max-cut-share=P% work=MODE parts=N \
    batch-slack=P%; do
    see "srun --help knows --dsgd-$option" 'has "--dsgd-$option "'
done

# --- other ways to a step ---

batch -N2 -n2 --dsgd-cutoff=order <<END
#!/bin/sh
echo script; $show
echo inner; srun $show
echo override; srun -N1 -n1 --dsgd-cutoff=static:1 $show
END
whole=$seen
seen=$(sed '/^inner$/,$d' <<<"$whole")
see "sbatch: the script itself gets nothing" 'has SLURM_PROCID && lacks DSGD'
seen=$(sed -n '/^inner$/,/^override$/p' <<<"$whole")
see "sbatch: its srun gets the option" 'count 2 DSGD_LAUNCH_CUTOFF=order'
seen=$(sed -n '/^override$/,$p' <<<"$whole")
see "sbatch: an option of its srun overrides" \
    'count 1 DSGD_LAUNCH_CUTOFF && has DSGD_LAUNCH_CUTOFF=static:1'

batch <<END
#!/bin/sh
#SBATCH --dsgd-cutoff=static:50%
#SBATCH --dsgd-min=2
srun $show
END
see "#SBATCH: its srun gets the options" \
    'has DSGD_LAUNCH_CUTOFF=static:50% && has DSGD_LAUNCH_MIN=2'

in_job srun -N1 --dsgd-min=2 sh -c "srun --overlap -N1 $show;
    srun --overlap -N1 --dsgd-cutoff=dry $show"
see "a step within a step inherits nothing" \
    'count 2 SLURM_PROCID && has DSGD_LAUNCH_CUTOFF=dry && lacks DSGD_LAUNCH_MIN'

in_job salloc -N1 --dsgd-cutoff=order srun "$show"
see "salloc: its srun gets the option" 'has DSGD_LAUNCH_CUTOFF=order'
seen=$(echo "$show; exit" | job script -qec "salloc -N1 --dsgd-cutoff=order" \
    /dev/null 2>&1)
see "salloc: its interactive shell gets the option" \
    'has SLURM_STEP_ID=4294967290 && has DSGD_LAUNCH_CUTOFF=order'

batch --array=3 --dsgd-cutoff=order <<END
#!/bin/sh
srun $show
END
see "job array" \
    'has SLURM_ARRAY_TASK_ID=3 && has DSGD_LAUNCH_CUTOFF=order'

# Not under pmix: with two components, srun 22.05 can hang in the end of its
# PMIx abort agent.
in_job srun --mpi=none -N1 -n1 --dsgd-cutoff=order "$show" : \
    --mpi=none -N1 -n1 "$show"
see "heterogeneous job: both components get the value" \
    'count 2 DSGD_LAUNCH_CUTOFF=order'

batch --export=NONE --dsgd-cutoff=order <<END
#!/bin/sh
PATH=/usr/bin:/bin
srun $show
END
see "sbatch --export=NONE: its srun gets the option" \
    'has DSGD_LAUNCH_CUTOFF=order'
in_job srun -N1 --export=NONE --dsgd-cutoff=order "$show"
see "srun --export=NONE: the task gets the option" \
    'has DSGD_LAUNCH_CUTOFF=order'
in_job srun -N1 --mpi=none --dsgd-cutoff=order "$show"
see "srun --mpi=none" 'has DSGD_LAUNCH_CUTOFF=order'

# --- requeue ---

script requeue.sh <<END
#!/bin/sh
srun $show
echo done
[ -n "\$SLURM_RESTART_COUNT" ] || sleep 60
END
: >"$shared/requeued"
chmod 666 "$shared/requeued"
id=$(job sbatch --parsable --requeue -D / --dsgd-cutoff=order \
    --open-mode=append -o "$shared/requeued" "$shared/requeue.sh")
runs() { # N: wait until so many have ended; what is to be done meanwhile
    local n=$1
    shift
    for _ in {1..150}; do
        (($(grep -c '^done' "$shared/requeued") == n)) && return
        "$@"
        sleep 0.3
    done
}
runs 1 true
job scontrol requeue "$id"
# Slurm gives it a time to begin that is two minutes ahead, so that the first
# run is cleaned up by then: look for that instead.
for _ in {1..100}; do
    mc exec n1 pgrep slurmstepd >/dev/null || break
    sleep 0.2
done
begin() {
    sleep 1
    mc exec ctl scontrol update "JobId=$id" StartTime=now
}
runs 2 begin >/dev/null 2>&1
seen=$(cat "$shared/requeued"; job scontrol show job "$id")
see "a requeued job gets the option again" \
    'count 2 DSGD_LAUNCH_CUTOFF=order && has SLURM_RESTART_COUNT=1'

# --- the site's defaults ---

plugstack "$optional cutoff=order min=2 window_ms=0" "${all[@]}"
in_job srun -N1 --dsgd-cutoff=full "$show"
see "plugstack.conf: defaults are handed on beside the option" \
    'has DSGD_LAUNCH_DEFAULT_CUTOFF=order && has DSGD_LAUNCH_DEFAULT_MIN=2 &&
    has DSGD_LAUNCH_CUTOFF=full'
see "plugstack.conf: with window_ms=0 there are no shares" \
    'has "other_cpu=;" && has "throttle=;"'
plugstack "$optional cutoff=dynmic" "${all[@]}"
in_job srun -N1 "$show"
see "a bad plugstack.conf: jobs run, their users read nothing of it" \
    '((rc == 0)) && lacks dsgd && lacks DSGD'
ok "but the node's log tells" grep 'dsgd: plugstack.conf: cutoff: "dynmic"' \
    "$cluster/log/n1.log"

records=$cluster/records
plugstack "$optional record_dir=$records" "${all[@]}"
in_job srun -N4 -l --dsgd-cutoff=order "$show"
folder=$(value DSGD_LAUNCH_DEFAULT_RECORD)
see "record_dir: handed to rank 0" \
    'count 1 DSGD_LAUNCH_DEFAULT_RECORD &&
    has "0: DSGD_LAUNCH_DEFAULT_RECORD=$records/"'
is "record_dir: root made the user's folder" "$(stat -c '%u %a' "$folder")" \
    "$(job id -u) 700"
script hosts <<<$'n4\nn1'
in_job env SLURM_HOSTFILE="$shared/hosts" srun -l -n2 --distribution=arbitrary \
    --dsgd-cutoff=order "$show"
see "record_dir: rank 0 need not be on the first node" \
    'count 1 DSGD_LAUNCH_DEFAULT_RECORD && has "0: DSGD_LAUNCH_DEFAULT_RECORD="'
chmod 777 "$records"
in_job srun -N1 -D / --dsgd-cutoff=order "$show"
see "record_dir: an unsafe one: one line, and the job's directory" \
    '((rc == 0)) && has "dsgd: record_dir: $records: must belong to root" &&
    count 1 dsgd: && [[ $(value DSGD_LAUNCH_DEFAULT_RECORD) == / ]]'
chmod 755 "$records"

# --- off means off ---

# Names alone of what differs between any two steps, and numbers as "#".
normal() {
    sed -E '/^(SLURM_(STEP_|JOB|TASK_PID|LAUNCHER|SRUN)|PMIX_)[^=]*=/s/=.*//
        s/[0-9]+/#/g' | sort
}
plugstack "$optional" "${all[@]}"
with=$(job srun -N1 -w n1 env 2>&1 | normal)
plugstack "" "${all[@]}"
without=$(job srun -N1 -w n1 env 2>&1 | normal)
seen=$(diff <(echo "$without") <(echo "$with"))
see "off: a task's environment is the same as without the plugin" \
    '[[ $with == *SLURM_PROCID* && -z $seen ]]'

# --- a node without the plugin, or with a broken one ---

plugstack "$optional" "${all[@]}"
mkdir "$cluster/lib"
head -c 20000 "$so" >"$cluster/lib/short.so"
head -c 40000 /dev/urandom >"$cluster/lib/noise.so"
: >"$cluster/lib/empty.so"
for kind in none missing short noise empty; do
    plugstack "optional $cluster/lib/$kind.so" n3
    [[ $kind != none ]] || plugstack "" n3
    in_job srun -N4 -l hostname
    see "n3's plugin: $kind: a job without the option is unharmed" \
        '((rc == 0)) && count 4 ": n" && lacks error'
    in_job srun -N4 -l --dsgd-cutoff=order "$show"
    see "n3's plugin: $kind: with it, the task there has no values" \
        'count 3 DSGD_LAUNCH_CUTOFF=order && count 4 SLURM_PROCID= &&
        lacks "2: DSGD"'
done
plugstack "$optional"$'\n'"$optional" n3
in_job srun -N4 -l --dsgd-cutoff=order "$show"
see "n3 lists the plugin twice: the job runs" \
    '((rc == 0)) && count 4 DSGD_LAUNCH_CUTOFF=order'
plugstack "$optional" n3
is "no node was drained" "$(job sinfo -h -o %T -N | sort -u)" idle

# --- telemetry ---

feature() { # rank, name: its value
    sed -n "s/^$1: DSGD_LAUNCH_TELEMETRY=.*;$2=\([^;]*\).*/\1/p" <<<"$seen"
}
median() { sort -n | sed -n 2p; }
job_id=$(mc noise n3)
declare -A looks=()
for _ in 1 2 3; do
    in_job srun -N4 -l --dsgd-cutoff=order "$show"
    for rank in 0 2; do
        looks[cpu$rank]+=$(feature $rank other_cpu)$'\n'
        looks[throttle$rank]+=$(feature $rank throttle)$'\n'
    done
done
for name in cpu throttle; do
    quiet=$(printf %s "${looks[${name}0]}" | median)
    noisy=$(printf %s "${looks[${name}2]}" | median)
    at_least "noise on n3: $name there ($noisy) and on n1 ($quiet)" \
        "$noisy" "$(awk -v q="$quiet" 'BEGIN { print q + 0.1 }')"
done
is "noise on n3: co_jobs" "$(feature 0 co_jobs) $(feature 2 co_jobs)" \
    "0.0000 0.6931"
see "what /proc tells of the host is not taken for the node's" \
    'count 4 ";load1=;psi_cpu=;psi_io=;psi_mem=;" && count 4 ";steal=;"'
mc noise stop "$job_id"
wait_job "$job_id"

# --- what it costs: figures, no test ---

declare -A times=()
for _ in {1..30}; do
    for kind in none off on; do
        option=()
        case $kind in
        none) plugstack "" "${all[@]}" ;;
        off) plugstack "$optional" "${all[@]}" ;;
        on) option=(--dsgd-cutoff=order) ;;
        esac
        start=${EPOCHREALTIME/./}
        job srun -N4 --mpi=none "${option[@]}" true
        times[$kind]+=$((${EPOCHREALTIME/./} - start))$'\n'
    done
done
for kind in none off on; do
    echo "# srun -N4 true, plugin $kind: median of 30:" \
        "$(sort -n <<<"${times[$kind]}" | sed '/^$/d' | sed -n 15p) us"
done

tap_done
