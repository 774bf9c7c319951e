# shellcheck shell=bash disable=SC2119,SC2120,SC2034
# What the system tests share.  Source this, call cluster_start, end with
# tap_done.  The cluster is removed when the test ends, however it ends.
#
# DSGD_TEST_CLUSTER names the state directory of a running cluster to use
# instead of a fresh one.  Without root or Slurm a test is skipped; with
# "slurm" in DSGD_REQUIRE it fails.

srcdir=${DSGD_SRCDIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
builddir=${DSGD_BUILDDIR:-$srcdir}
minicluster=$srcdir/etc/minicluster
cluster=/run/dsgd-test-$$
# shellcheck source=../tap.sh
. "$srcdir/tests/tap.sh"

# mc ARGS...: minicluster for this test's cluster, never for more than a while.
mc() { timeout -k 5 "${MC_TIMEOUT:-120}" "$minicluster" -d "$cluster" "$@"; }

# job CMD...: CMD as the job user on the submit host.
job() { mc run "$@"; }

cannot() {
    [[ ",${DSGD_REQUIRE:-}," == *,slurm,* ]] || skip_all "$*"
    echo "Bail out! $* (DSGD_REQUIRE=$DSGD_REQUIRE)"
    exit 1
}

need_slurm() {
    local tool
    ((EUID == 0)) || cannot "needs root"
    for tool in slurmctld slurmd srun munged ip "$@"; do
        PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null ||
            cannot "needs $tool"
    done
}

# await SECONDS CMD...: until CMD succeeds.
await() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < deadline)) || return
        sleep 0.1
    done
}

# at_exit CMD: have CMD evaluated when the test ends, the last one first.
at_exit_cmds=()
at_exit() {
    at_exit_cmds=("$1" "${at_exit_cmds[@]}")
    trap run_at_exit EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}
# shellcheck disable=SC2317
run_at_exit() {
    local rc=$? cmd
    for cmd in "${at_exit_cmds[@]}"; do eval "$cmd"; done
    exit "$rc"
}

# cluster_start [UP-OPTION]...: the test's own cluster; the build tree is
# visible on its nodes, and $shared is a directory that all hosts may write.
cluster_start() {
    need_slurm
    if [[ -n ${DSGD_TEST_CLUSTER:-} ]]; then
        cluster=$DSGD_TEST_CLUSTER
    else
        at_exit 'mc down'
        if ! mc up -v "$builddir" "$@" >/dev/null; then
            echo "Bail out! the cluster did not start"
            exit 1
        fi
    fi
    shared=$cluster/share
}

# cluster_start_plugin ARGUMENTS [UP-OPTION]...: the same, with the built plugin
# and these arguments of it in plugstack.conf.
cluster_start_plugin() {
    local so=$builddir/plugin/spank_dsgd.so plugstack
    [[ -f $so ]] || cannot "$so is not built"
    plugstack=$(mktemp)
    at_exit "rm -f '$plugstack'"
    echo "optional $so $1" >"$plugstack"
    cluster_start -P "$plugstack" "${@:2}"
}
