#!/bin/bash
# Which folder may include what: dependencies point one way.
# shellcheck source=../tap.sh
. "$(dirname "$0")/../tap.sh"
cd "$(dirname "$0")/../.." || exit 1

# own FOLDER: headers of ours that FOLDER's sources include, in other folders.
own() {
    local header
    grep -ho '^#include "[^"]*"' "$1"/*.[ch] | cut -d'"' -f2 | sort -u |
        while read -r header; do
            [[ -e $1/$header ]] || ls {model,runtime,plugin}/"$header" 2>/dev/null
        done
}
system() { grep -l "^#include <$2" "$1"/*.[ch]; }

is "model/ includes nothing of runtime/ or plugin/" "$(own model)" ""
is "plugin/ includes the table of names alone" \
    "$(own plugin)" "runtime/dsgd_names.h"
is "runtime/ includes of plugin/ what reads a node's load, no more" \
    "$(own runtime | grep '^plugin/')" "plugin/telemetry.h"
is "model/ knows no MPI, PMIx or Slurm" \
    "$(system model '\(mpi\|pmix\|slurm/\)')" ""
is "plugin/ knows no MPI, PMIx, SQLite or BLAS" \
    "$(system plugin '\(mpi\|pmix\|sqlite3\|cblas\|jansson\)')" ""
is "runtime/ knows no Slurm headers" "$(system runtime 'slurm/')" ""
is "only libdsgd-mpi includes MPI" \
    "$(system runtime '\(mpi\|pmix\)\.h' | tr '\n' ' ')" \
    "runtime/dsgd_mpi.h runtime/modex.c runtime/modex.h runtime/transport_mpi.h "
# A library prints nothing; mains, the trainer's reports, the report and the
# programs' own parts do.
is "libraries neither print nor exit" "$(grep -lE '\b(printf|puts|fputs|perror|exit|abort)\(' \
    model/*.c runtime/*.c plugin/*.c |
    grep -vE '_main\.c$|model/(replay|fit)_|runtime/(train|report|run_(label|node|options|team))_?' | tr '\n' ' ')" ""
tap_done
