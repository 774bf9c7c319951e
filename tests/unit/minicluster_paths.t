#!/bin/bash
# minicluster: cgroup paths and control file contents for cgroup v1 and v2, and
# what it says without a cluster.  Needs neither root nor Slurm.

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../tap.sh
. "$here/../tap.sh"
minicluster=$here/../../etc/minicluster
# shellcheck source=../../etc/minicluster
. "$minicluster"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# fixture NAME: standard input becomes a mountinfo file, and is loaded.
fixture() {
    cat >"$tmp/$1"
    cg_load "$tmp/$1"
}

use_dir /run/one
name=$CG_NAME
like "the cgroup is named after the state directory" "$name" \
    '^minicluster-[0-9a-f]{8}$'
use_dir /run/two
ok "another directory, another name" test "$CG_NAME" != "$name"
use_dir /run/../run/./one
is "one directory, one name" "$CG_NAME" "$name"
like "the state directory may not have blanks" "$(use_dir '/run/a b' 2>&1)" \
    'error: state directory "/run/a b": Slurm takes only letters'

# Every controller by itself, with an empty v2 hierarchy beside them.
fixture v1 <<'END'
22 28 0:21 / /sys rw,nosuid shared:7 - sysfs sysfs rw
30 22 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:28 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
32 30 0:29 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
33 30 0:30 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
34 30 0:31 / /sys/fs/cgroup/freezer rw,relatime shared:9 - cgroup cgroup rw,freezer
35 30 0:32 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
END
is "v1: found" "$CG_VERSION" v1
is "v1: cpu of a node" "$(cg_dir cpu n3)" "/sys/fs/cgroup/cpu/$name/n3"
is "v1: cpuacct of the cluster" "$(cg_dir cpuacct)" \
    "/sys/fs/cgroup/cpuacct/$name"
is "v1: freezer of ctl" "$(cg_dir freezer ctl)" \
    "/sys/fs/cgroup/freezer/$name/ctl"
is "v1: hierarchies" "$(cg_points | wc -l)" 3
is "v1: quota" "$(cg_quota_files 42 10000)" "$(printf '%s\n' \
    'cpu.cfs_quota_us -1' 'cpu.cfs_period_us 10000' 'cpu.cfs_quota_us 4200')"
is "v1: freeze" "$(cg_freeze_file frozen)" "freezer.state FROZEN"
is "v1: thaw" "$(cg_freeze_file thawed)" "freezer.state THAWED"
is "v1: weight" "$(cg_weight_file)" "cpu.shares 65536"

# systemd mounts cpu and cpuacct as one hierarchy.
fixture v1-joint <<'END'
31 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct
34 30 0:31 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
35 30 0:33 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
END
is "joint v1: found" "$CG_VERSION" v1
is "joint v1: cpu" "$(cg_dir cpu n1)" "/sys/fs/cgroup/cpu,cpuacct/$name/n1"
is "joint v1: cpuacct is the same" "$(cg_dir cpuacct n1)" "$(cg_dir cpu n1)"
is "joint v1: mount options" "${CG_OPTIONS[cpuacct]}" cpu,cpuacct
is "joint v1: hierarchies" "$(cg_points | wc -l)" 2

fixture v2 <<'END'
22 28 0:21 / /sys rw,nosuid shared:7 - sysfs sysfs rw
30 22 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate
END
is "v2: found" "$CG_VERSION" v2
is "v2: cpu of a node" "$(cg_dir cpu n3)" "/sys/fs/cgroup/$name/n3"
is "v2: freezer is the same" "$(cg_dir freezer n3)" "$(cg_dir cpu n3)"
is "v2: hierarchies" "$(cg_points | wc -l)" 1
is "v2: quota" "$(cg_quota_files 42 10000)" "cpu.max 4200 10000"
is "v2: freeze" "$(cg_freeze_file frozen)" "cgroup.freeze 1"
is "v2: thaw" "$(cg_freeze_file thawed)" "cgroup.freeze 0"
is "v2: weight" "$(cg_weight_file)" "cpu.weight 6400"

# A v1 hierarchy without all the controllers gives way to v2.
fixture hybrid <<'END'
31 30 0:28 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
35 30 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
END
is "incomplete v1: v2 is used" "$CG_VERSION $(cg_dir cpu)" \
    "v2 /sys/fs/cgroup/unified/$name"

ok "no cgroup file system: an error" test "$(
    fixture bare <<<'22 28 0:21 / /sys rw - sysfs sysfs rw'
    echo $?
)" = 1

CG_VERSION=v2
is "more than one core" "$(cg_quota_files 170 10000)" "cpu.max 17000 10000"
is "a small share: the kernel's least quota is 1 ms" \
    "$(cg_quota_files 7 10000)" "cpu.max 1000 14286"
is "default share, 2 cores, 4 nodes" "$(cg_default_percent 2 4)" 42
is "default share, 64 cores, 1 node" "$(cg_default_percent 64 1)" 5440
is "default share is never 0" "$(cg_default_percent 1 200)" 1

# The cgroup files themselves, on a copy of the tree.
use_dir "$tmp/state"
CG_VERSION=v1
# shellcheck disable=SC2034
declare -A CG_POINT=([cpu]=$tmp/cpu [cpuacct]=$tmp/acct [freezer]=$tmp/freezer)
mkdir "$tmp/cpu" "$tmp/acct" "$tmp/freezer"
ok "cgroups of two hosts are made" cg_create ctl n1
is "in every hierarchy" "$(cg_dirs | wc -l)" 9
is "with the cluster's weight" "$(cat "$(cg_dir cpu)/cpu.shares")" 65536
cg_set_quota n1 50 10000
is "the quota goes to the cpu hierarchy" \
    "$(cat "$(cg_dir cpu n1)/cpu.cfs_quota_us")" 5000
cg_set_frozen n1 frozen
ok "frozen is seen" cg_is_frozen n1
cg_set_frozen n1 thawed
ok "thawed is seen" test "$(cg_is_frozen n1; echo $?)" = 1

# What is said about a wrong command line.  The state directory is not empty,
# so that nothing can come up here even for root.
error() { "$minicluster" -d "$tmp" "$@" 2>&1; }
like "--help" "$("$minicluster" --help)" 'usage: minicluster .*noise NODE'
page=$here/../../doc/minicluster.1
for word in $("$minicluster" --help | grep -oE '^  -{0,2}[A-Za-z-]+'); do
    case $word in
    --*) macro=".It Fl -${word#--}" ;;
    -*) macro=".It Fl ${word#-}" ;;
    *) macro=".It Cm $word" ;;
    esac
    ok "the manual page has $word" grep -q -- "^$macro\b" "$page"
done
is "no command: exit 2" "$("$minicluster" >/dev/null 2>&1; echo $?)" 2
like "unknown command" "$(error upp)" 'unknown command "upp"'
like "unknown option" "$(error up --nodes 4)" 'unknown option "--nodes"'
like "no node" "$(error up -N 0)" '-N "0": expected a whole number from 1 to'
like "no number" "$(error up -c x)" '-c "x": expected a whole number'
like "missing value" "$(error up -q)" 'up -q: its value is missing'
like "share that is not there" "$(error up -v "$tmp/none")" 'no such directory'
like "share of /tmp itself" "$(error up -v /tmp)" "each host's own"
like "plugstack file that is not there" "$(error up -P "n2:$tmp/none")" \
    "cannot read $tmp/none"
like "slurm.conf line without a key" "$(error up -o nonsense)" 'KEY=VALUE'
like "run without a command" "$(error run)" 'the command is missing'
is "dir" "$("$minicluster" -d "$tmp/x/../y" dir)" "$tmp/y"

tap_done
