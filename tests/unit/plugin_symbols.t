#!/bin/sh
# What the plugin shows, needs and includes.
so=${DSGD_BUILDDIR:-.}/plugin/spank_dsgd.so
src=${DSGD_SRCDIR:-.}
n=0
result() { # name; the status of what was run just before
    if [ "$?" -eq 0 ]; then r=ok; else r="not ok"; fi
    n=$((n + 1))
    echo "$r $n - $1"
}
none() { # prints what it is given; true when that is nothing
    [ -z "$1" ] || { echo "$1" | sed 's/^/#   /'; false; }
}

none "$(nm -D --defined-only "$so" | awk '{ print $NF }' |
    grep -vxE 'plugin_(name|type|version)|spank_plugin_version|slurm_spank_(init|init_post_opt|user_init|task_init)')"
result "no other symbols than SPANK's are visible"

none "$(nm -D --undefined-only "$so" | awk '{ print $NF }' |
    grep -E '^(slurm|spank|PMIx|MPI|cblas|dsgd|cutoff|error)_' |
    grep -vxE 'slurm_error|slurm_spank_log|spank_(context|getenv|get_item|option_register|setenv|strerror|unsetenv)')"
result "nothing newer or other of Slurm is called than what 22.05 has"

none "$(objdump -p "$so" | awk '$1 == "NEEDED" { print $2 }' |
    grep -vE '^lib(c|m|asan|ubsan|gcc_s)\.so\.[0-9]+$|^ld-linux')"
result "it is linked with the C library alone"

none "$(objdump -p "$so" | grep -E 'RPATH|RUNPATH')"
result "it has no search path of its own"

none "$(sed -n 's/^#include "\(.*\)"/\1/p' "$src"/plugin/*.[ch] | sort -u |
    while read -r header; do
        [ -f "$src/plugin/$header" ] || [ "$header" = dsgd_names.h ] ||
            echo "$header"
    done)"
result "it includes nothing of ours but dsgd_names.h"

echo "1..$n"
