/* Error codes of slurm-dsgd.  The values are pinned: they are also the exit
 * codes of the programs. */
#ifndef DSGD_ERROR_H
#define DSGD_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

enum dsgd_err {
    DSGD_OK = 0,
    DSGD_E_FAIL = 1,     /* none of the below; the text says what */
    DSGD_E_USAGE = 2,    /* a bad option, environment or configuration value */
    DSGD_E_RANGE = 3,    /* an argument outside its domain, NaN among them */
    DSGD_E_NOMEM = 4,    /* no memory */
    DSGD_E_IO = 5,       /* a file could not be opened, read or written */
    DSGD_E_FORMAT = 6,   /* a file is not what it should be, or is cut short */
    DSGD_E_NOSPACE = 7,  /* /dev/shm or a disk is full */
    DSGD_E_MPI = 8,      /* MPI or PMIx reported an error */
    DSGD_E_LAUNCH = 9,   /* the processes were not started as one MPI job */
    DSGD_E_STATE = 10,   /* a call out of order */
    DSGD_E_NUMERIC = 11, /* wrong arithmetic: a broken BLAS kernel, replicas
                            that differ */
    DSGD_E_TIMEOUT = 12, /* something did not answer in time */
    DSGD_E_NOMODEL = 13, /* no timing model is installed */
    DSGD_E_PREEMPTED = 14, /* the run was ended early, at a checkpoint: start
                              it again to go on */

    /* Not errors: what a step tells its caller.  Never exit codes. */
    DSGD_UP_TO_DATE = 64, /* all means are applied: begin the next step */
    DSGD_EPOCH_END = 65,  /* as UP_TO_DATE, and an epoch ended: evaluate */
    DSGD_RESYNCED = 66,   /* the registered state was overwritten */
    DSGD_END = 67,        /* the run is over: close */
    DSGD_GO_ON = 68,      /* dsgd_poll: go on computing */
    DSGD_ABANDON = 69,    /* dsgd_poll: the step is closed, stop computing */
    DSGD_BEHIND = 70      /* dsgd_allreduce: another mean is waiting */
};

/* What went wrong, in one line without a newline: the thing, its value, and
 * what to do.  A caller that does not want it passes NULL. */
struct dsgd_error {
    char text[512];
};

#ifdef __cplusplus
}
#endif

#endif
