#!/bin/bash
# The mini cluster itself: its nodes are machines of their own to Slurm and to
# jobs, a co-tenant slows its own node alone, and nothing is left of it.

# shellcheck disable=SC2016,SC2119,SC2317
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
need_slurm mpicc

# What a cluster could leave on the machine; its processes, see below.
machine() {
    ip -o link | cut -d: -f2
    ip netns
    cut -d' ' -f2 /proc/mounts | sort
    find /sys/fs/cgroup -maxdepth 3 -name "${1:-minicluster-*}"
    getent passwd
    getent group
    find /tmp /dev/shm -maxdepth 1 -uid "${job_uid:-59000}"
}

host_namespaces() {
    local h
    for h in ctl n1 n2 n3 n4; do
        mc exec $h readlink /proc/self/ns/{net,uts,mnt,pid,ipc}
    done | sort -u
}

# The processes in cgroup $1 and below, each with its start time, which tells
# it from a later process with its number.  The dead do not count: whoever
# adopted them is about to collect them.
processes() {
    local pid
    cat /sys/fs/cgroup/{,*/}"$1"/*/cgroup.procs 2>/dev/null | sort -u |
        while read -r pid; do process "$pid"; done
}
process() {
    sed -nE '/\) Z /!s/^([0-9]+) .*\) ([^ ]+ ){19}([0-9]+) .*/\1 \3/p' \
        "/proc/$1/stat"
}
survivors() {
    local pid start
    while read -r pid start; do
        [[ $(process "$pid" 2>/dev/null) == "$pid $start" ]] &&
            ps -o pid=,ppid=,stat=,args= -p "$pid"
    done <"$1"
}
cgroup_of() { echo "minicluster-$(printf %s "$1" | md5sum | cut -c1-8)"; }

tmp=$(mktemp -d)
at_exit 'rm -rf "$tmp"'
group=$(cgroup_of "$cluster")
machine "$group" >"$tmp/before"
cluster_start
pass() { tap_result 0 "$1"; }
pass "up"
job_uid=$(job id -u)

# --- nodes ---
is "all nodes are idle" "$(job sinfo -h -t idle -o %N)" 'n[1-4]'
is "srun runs on every node" "$(job srun -N4 hostname | sort | xargs)" \
    "n1 n2 n3 n4"
ok "as an ordinary user" test "$job_uid" -gt 0
is "the same one on the nodes" "$(job srun -N4 id -u | sort -u)" "$job_uid"
is "exit codes come back" "$(job srun -N1 sh -c 'exit 7' 2>/dev/null; echo $?)" 7
for h in ctl n1 n4; do
    is "every name resolves on $h" \
        "$(mc exec $h getent hosts ctl n1 n2 n3 n4 | awk '{ print $2 }' | xargs)" \
        "ctl n1 n2 n3 n4"
done
ok "nodes reach each other" mc exec n2 bash -c ': <>/dev/tcp/n3/6818'
is "hosts have namespaces of their own" "$(host_namespaces | wc -l)" 25

mc exec n1 sh -c 'touch /tmp/mine /dev/shm/mine /run/mine'
is "/tmp, /dev/shm and /run are a node's own" \
    "$(mc exec n2 ls /tmp/mine /dev/shm/mine /run/mine 2>/dev/null)" ""
ok "and not the machine's" test ! -e /dev/shm/mine
is "processes are a node's own" \
    "$(mc exec n1 sh -c 'sleep 9 & ps -o pid= -C slurmd | wc -l; kill $!')" 1
is "/dev/shm has the size asked for" \
    "$(mc exec n1 stat -f -c '%S %b' /dev/shm | awk '{ print $1 * $2 / 2^20 }')" 1024
job touch "$shared/common"
ok "share/ is common" mc exec n3 test -e "$shared/common"
ok "the build tree is visible to jobs" job srun -N4 test -d "$builddir"
ok "the records directory is root's" test "$(stat -c '%u %a' "$cluster/records")" = "0 755"

# Of cgroup v1 or v2, whose root here is the node's own.
node_file() { mc exec n1 sh -c "cat /sys/fs/cgroup/cpu/$1 /sys/fs/cgroup/$2 2>/dev/null"; }
percent=$(sed -n 's/^PERCENT=//p' "$cluster/minicluster.conf")
is "a node sees its own quota" "$(node_file cpu.cfs_quota_us cpu.max | cut -d' ' -f1)" \
    $((percent * 100))
like "and throttling" "$(node_file cpu.stat cpu.stat)" 'nr_throttled [1-9]'

ok "slurmd has the pmix setting" mc exec n1 grep -qz PMIX_MCA_gds=hash \
    "/proc/$(mc exec n1 ps -o pid= -C slurmd | xargs)/environ"
like "steps' daemons do not connect directly" "$(job scontrol show config)" \
    'PMIxDirectConn *= no'

# --- ways to run ---
cat >"$tmp/sum.c" <<'END'
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, sum;
    char host[64];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    gethostname(host, sizeof(host));
    printf("%s %d\n", host, sum);
    MPI_Finalize();
    return 0;
}
END
mpicc -o "$shared/sum" "$tmp/sum.c" || diag "mpicc failed"
is "8 MPI ranks on 4 nodes" \
    "$(job srun --mpi=pmix -N4 --ntasks-per-node=2 "$shared/sum" | sort | uniq -c | xargs)" \
    "2 n1 28 2 n2 28 2 n3 28 2 n4 28"
# What the last rank says late, the first has when the fence is over.
cat >"$tmp/fence.c" <<'END'
#include <pmix.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
    pmix_proc_t self, last;
    pmix_value_t one, *got = NULL;
    pmix_info_t collect, here;
    bool yes = true;
    int ranks = atoi(getenv("SLURM_NTASKS"));

    PMIx_Init(&self, NULL, 0);
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&here, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
    PMIX_VALUE_CONSTRUCT(&one);
    one.type = PMIX_INT;
    one.data.integer = 1;
    if ((int)self.rank == ranks - 1)
        sleep(1);
    PMIx_Put(PMIX_GLOBAL, "late", &one);
    PMIx_Commit();
    PMIx_Fence(NULL, 0, &collect, 1);
    PMIX_PROC_LOAD(&last, self.nspace, (pmix_rank_t)(ranks - 1));
    if (self.rank == 0)
        puts(PMIx_Error_string(PMIx_Get(&last, "late", &here, 1, &got)));
    PMIx_Finalize(NULL, 0);
    return 0;
}
END
# shellcheck disable=SC2046
cc -o "$shared/fence" "$tmp/fence.c" $(pkg-config --cflags --libs pmix) ||
    diag "cc failed"
for n in 2 4; do
    is "a PMIx fence is one of all $n nodes" \
        "$(job srun --mpi=pmix -N$n "$shared/fence")" SUCCESS
done
is "sbatch" "$(job sbatch -W -N2 -o "$cluster/home/out" --wrap 'srun hostname' \
    >/dev/null; sort "$cluster/home/out" | xargs)" "n1 n2"
is "salloc" "$(job salloc -Q -N2 srun hostname | sort | xargs)" "n1 n2"
is "interactive step" "$(job salloc -Q -N1 -w n4 2>/dev/null \
    <<<'hostname; exit')" n4
is "also for a caller without an environment" \
    "$(env -i PATH="$PATH" "$minicluster" -d "$cluster" run salloc -Q -N1 -w n4 \
    2>/dev/null <<<'hostname; exit')" n4
is "the environment reaches tasks" "$(OPENBLAS_CORETYPE=x OMP_NUM_THREADS=3 \
    mc run srun -N1 printenv OPENBLAS_CORETYPE OMP_NUM_THREADS | xargs)" "x 3"

# A killed `run` takes its command along.
"$minicluster" -d "$cluster" run srun -J doomed -N1 sleep 100 2>/dev/null &
doomed() { [[ $(job squeue -h -n doomed) ]]; }
gone() { ! doomed; }
await 20 doomed
kill $!
ok "a killed run ends its job" await 20 gone
wait 2>/dev/null

# --- a co-tenant ---
# Milliseconds that a fixed piece of work takes on n1 and n3 at once.
work='s=${EPOCHREALTIME/./}; for ((i = 0; i < 200000; i++)); do :; done
      echo $(hostname) $(((${EPOCHREALTIME/./} - s) / 1000))'
measure() { job srun --mpi=none -w n1,n3 bash -c "$work" 2>/dev/null | sort; }
ratio() { awk -v h="$1" '$1 == h { t[n++] = $2 } END { print t[1] / t[0] }'; }

for try in 1 2 3; do
    measure >"$tmp/work"
    id=$(mc noise n3)
    measure >>"$tmp/work"
    listed=$(job squeue -h -j "$id" -o '%T %N %u')
    mc noise stop "$id"
    n1=$(ratio n1 <"$tmp/work") n3=$(ratio n3 <"$tmp/work")
    diag "try $try: with noise on n3 fixed work takes $n1 times as long on n1," \
        "$n3 times on n3 ($(xargs <"$tmp/work") ms)"
    awk -v a="$n1" -v b="$n3" 'BEGIN { exit !(b > 1.8 && a < 1.4) }' && break
done
at_least "noise slows its own node" "$n3" 1.8
at_most "and not another one" "$n1" 1.4
is "noise is a job of the user that Slurm knows of" "$listed" \
    "RUNNING n3 $(job id -un)"
like "noise stop of a job that is over" "$(mc noise stop "$id" 2>&1)" \
    "noise: no such job runs: $id"
is "noise stop ends it" "$(job squeue -h -n noise -t R)" ""
is "with all its processes" \
    "$(sleep 1; mc exec n3 ps -o pid= -u "$job_uid" | wc -l)" 0
like "noise on a node that is not there" "$(mc noise n9 2>&1)" \
    '"n9" is no node of this cluster'
like "status lists the nodes" "$(mc status | xargs)" \
    'NODELIST STATE n1 idle n2 idle n3 idle n4 idle'

# --- two clusters ---
other=$cluster-b
mcb() { timeout -k 5 60 "$minicluster" -d "$other" "$@"; }
closed=$(mktemp -d /var/tmp/closed.XXXXXX)    # mode 0700
at_exit 'mcb down; rm -rf "$closed"'
mkdir -p "$closed/tree"
cp "$shared/sum" "$closed/tree/sum"
echo '# nothing here' >"$tmp/everywhere"
echo 'optional /nonexistent/plugin.so' >"$tmp/n2"
ok "a second cluster comes up beside the first" mcb up -N 2 -c 3 -q 20 -s 64 \
    -v "$closed/tree" -P "$tmp/everywhere" -P "n2:$tmp/n2" -o SlurmdTimeout=77
is "with the nodes it was asked for" "$(mcb run sinfo -h -o '%D %c')" "2 3"
is "each runs its own job" \
    "$(mcb run srun -N2 hostname | sort | xargs) $(job srun -N4 hostname | sort | xargs)" \
    "n1 n2 n1 n2 n3 n4"
ok "a share in a closed directory is open to jobs" \
    mcb run srun -N2 test -x "$closed/tree/sum"
is "where the closed directory is closed still" "$(stat -c %a "$closed")" 700
is "plugstack.conf of all nodes" "$(mcb exec n1 cat /etc/slurm/plugstack.conf)" \
    "# nothing here"
is "plugstack.conf of one node" \
    "$(mcb exec n2 tail -n 1 /etc/slurm/plugstack.conf)" "$(cat "$tmp/n2")"
is "slurm.conf line" "$(mcb exec n1 grep SlurmdTimeout /etc/slurm/slurm.conf)" \
    SlurmdTimeout=77
like "up once more is refused" "$(mcb up 2>&1)" \
    "remove it with .*-d $other down"
mcb freeze n2
like "exec into a frozen node is refused" "$(mcb exec n2 true 2>&1)" \
    'n2 is frozen'
ok "down with a frozen node" mcb down
ok "its directory is gone" test ! -e "$other"
is "the first cluster did not notice" \
    "$(job srun -N4 hostname | sort | xargs)" "n1 n2 n3 n4"
ok "down again is fine" mcb down
is "status says that it is down" "$(mcb status >/dev/null; echo $?)" 3

# --- what remains ---
mcb up -N 2 -o SelectType=select/none_such >/dev/null 2>"$tmp/failed"
is "an up that fails says so" $? 1
like "and why, from the log" "$(cat "$tmp/failed")" 'select/none_such.*minicluster: error: slurmctld ended'
ok "and cleans up after itself" test ! -e "$other"

left=0
for delay in 0.02 0.05 0.1 0.2 0.3 0.5 0.8; do
    "$minicluster" -d "$other" up -N 2 >/dev/null 2>&1 &
    sleep $delay
    kill -KILL $! 2>/dev/null
    wait $! 2>/dev/null
    mcb down || left=1
    [[ ! -e $other ]] || left=1
done
is "an up killed midway is removed by down" $left 0

mkdir "$other"
mcb up -N 1 >/dev/null
mc exec n1 true
processes "$(cgroup_of "$other")" | cut -d' ' -f1 | xargs kill -KILL 2>/dev/null
is "status of a cluster whose processes died" "$(mcb status >/dev/null; echo $?)" 1
ok "down of it" mcb down
ok "a directory that was there before stays, empty" rmdir "$other"

job srun -N4 sh -c 'sleep 300 & sleep 300' 2>/dev/null &
running() { [[ $(job squeue -h -t R) ]]; }
await 20 running
if [[ -z ${DSGD_TEST_CLUSTER:-} ]]; then
    processes "$group" >"$tmp/processes"
    at_least "the cluster has processes" "$(wc -l <"$tmp/processes")" 20
    ok "down with a job running" mc down
    wait 2>/dev/null
    machine "$group" >"$tmp/after"
    is "links, mounts, cgroups, users and files are as before" \
        "$(diff "$tmp/before" "$tmp/after")" ""
    # Orphans of a killed `run` are the machine's init to collect, before
    # which the init of their namespace cannot end.
    none() { [[ -z $(survivors "$tmp/processes") ]]; }
    await 10 none
    is "no process is left" "$(survivors "$tmp/processes")" ""
    is "the state directory is gone" "$(ls -d "$cluster"* 2>/dev/null)" ""
    like "run says how to start a cluster" "$(mc run true 2>&1)" "-d $cluster up"
fi
tap_done
