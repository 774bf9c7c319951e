# shellcheck shell=bash
# What the tests on one node, under mpirun or dsgd-run, share.  Source this, end
# with tap_done.  $dir is a directory that is removed when the test ends.
#
# What a test needs is named by need; without it the test is skipped, or fails
# where DSGD_REQUIRE holds "mpi".
set -u
# shellcheck source=tests/tap.sh
. "${DSGD_SRCDIR:?}/tests/tap.sh"

# A test that looks for what is left in /dev/shm should see its own alone.
if ((EUID == 0)) && [[ -z ${DSGD_OWN_SHM-} ]] && unshare -m true 2>/dev/null; then
    # shellcheck disable=SC2016
    DSGD_OWN_SHM=1 exec unshare -m sh -c \
        'mount -t tmpfs -o size=2g dsgd /dev/shm && exec "$@"' sh "$0" "$@"
fi

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none DSGD_CONF=/dev/null
unset DSGD_CUTOFF DSGD_CHECKPOINT_DIR
# shellcheck disable=SC2034
data=/usr/share/datasets/fashion-mnist
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# need THING PACKAGE: a program or a file.
need() {
    command -v "$1" >/dev/null || [[ -e $1 ]] && return
    [[ ,${DSGD_REQUIRE-}, == *,mpi,* ]] || skip_all "$1 is missing ($2)"
    echo "Bail out! $1 is missing ($2)"
    exit 1
}
need mpirun openmpi-bin
