/* Names of the environment variables.  The one header that the SPANK plugin
 * shares with the runtime.
 *
 * The plugin writes and clears DSGD_LAUNCH_* only.  A user's own DSGD_* are
 * never touched.  Precedence, lowest first: built-in default, dsgd.conf,
 * plugstack.conf (DSGD_LAUNCH_DEFAULT_*), DSGD_*, option (DSGD_LAUNCH_*). */
#ifndef DSGD_NAMES_H
#define DSGD_NAMES_H

/* From the plugin to the tasks. */
#define DSGD_LAUNCH_PREFIX   "DSGD_LAUNCH_"
#define DSGD_LAUNCH_VERSION  "DSGD_LAUNCH_VERSION"  /* "1" */
#define DSGD_LAUNCH_CUTOFF   "DSGD_LAUNCH_CUTOFF"   /* --dsgd-cutoff */
#define DSGD_LAUNCH_MIN      "DSGD_LAUNCH_MIN"      /* --dsgd-min */
#define DSGD_LAUNCH_MODEL    "DSGD_LAUNCH_MODEL"    /* --dsgd-model */
#define DSGD_LAUNCH_RECORD   "DSGD_LAUNCH_RECORD"   /* --dsgd-record */
#define DSGD_LAUNCH_LATE     "DSGD_LAUNCH_LATE"     /* --dsgd-late */
#define DSGD_LAUNCH_PARTIAL  "DSGD_LAUNCH_PARTIAL"  /* --dsgd-partial */
#define DSGD_LAUNCH_LR_SCALE "DSGD_LAUNCH_LR_SCALE" /* --dsgd-lr-scale */
#define DSGD_LAUNCH_MAX_CUTS "DSGD_LAUNCH_MAX_CUTS" /* --dsgd-max-cuts */
#define DSGD_LAUNCH_MAX_CUT_SHARE \
    "DSGD_LAUNCH_MAX_CUT_SHARE"               /* --dsgd-max-cut-share */
#define DSGD_LAUNCH_WORK  "DSGD_LAUNCH_WORK"  /* --dsgd-work */
#define DSGD_LAUNCH_PARTS "DSGD_LAUNCH_PARTS" /* --dsgd-parts */
#define DSGD_LAUNCH_BATCH_SLACK \
    "DSGD_LAUNCH_BATCH_SLACK" /* --dsgd-batch-slack */
#define DSGD_LAUNCH_DEFAULT_CUTOFF        "DSGD_LAUNCH_DEFAULT_CUTOFF"
#define DSGD_LAUNCH_DEFAULT_MIN           "DSGD_LAUNCH_DEFAULT_MIN"
#define DSGD_LAUNCH_DEFAULT_MODEL         "DSGD_LAUNCH_DEFAULT_MODEL"
#define DSGD_LAUNCH_DEFAULT_RECORD        "DSGD_LAUNCH_DEFAULT_RECORD"
#define DSGD_LAUNCH_DEFAULT_LATE          "DSGD_LAUNCH_DEFAULT_LATE"
#define DSGD_LAUNCH_DEFAULT_PARTIAL       "DSGD_LAUNCH_DEFAULT_PARTIAL"
#define DSGD_LAUNCH_DEFAULT_LR_SCALE      "DSGD_LAUNCH_DEFAULT_LR_SCALE"
#define DSGD_LAUNCH_DEFAULT_MAX_CUTS      "DSGD_LAUNCH_DEFAULT_MAX_CUTS"
#define DSGD_LAUNCH_DEFAULT_MAX_CUT_SHARE "DSGD_LAUNCH_DEFAULT_MAX_CUT_SHARE"
#define DSGD_LAUNCH_DEFAULT_WORK          "DSGD_LAUNCH_DEFAULT_WORK"
#define DSGD_LAUNCH_DEFAULT_PARTS         "DSGD_LAUNCH_DEFAULT_PARTS"
#define DSGD_LAUNCH_DEFAULT_BATCH_SLACK   "DSGD_LAUNCH_DEFAULT_BATCH_SLACK"
#define DSGD_LAUNCH_TELEMETRY             "DSGD_LAUNCH_TELEMETRY" /* see below */

/* From the user. */
#define DSGD_CUTOFF             "DSGD_CUTOFF" /* as --dsgd-cutoff */
#define DSGD_MIN                "DSGD_MIN"    /* as --dsgd-min */
#define DSGD_MODEL              "DSGD_MODEL"  /* as --dsgd-model */
#define DSGD_RULE               "DSGD_RULE" /* paper | ratio | renewal | live */
#define DSGD_RECORD             "DSGD_RECORD"        /* as --dsgd-record */
#define DSGD_LATE               "DSGD_LATE"          /* as --dsgd-late */
#define DSGD_PARTIAL            "DSGD_PARTIAL"       /* as --dsgd-partial */
#define DSGD_LR_SCALE           "DSGD_LR_SCALE"      /* as --dsgd-lr-scale */
#define DSGD_MAX_CUTS           "DSGD_MAX_CUTS"      /* as --dsgd-max-cuts */
#define DSGD_MAX_CUT_SHARE      "DSGD_MAX_CUT_SHARE" /* as --dsgd-max-cut-share */
#define DSGD_WORK               "DSGD_WORK"          /* as --dsgd-work */
#define DSGD_PARTS              "DSGD_PARTS"         /* as --dsgd-parts */
#define DSGD_BATCH_SLACK        "DSGD_BATCH_SLACK"   /* as --dsgd-batch-slack */
#define DSGD_RING_BYTES         "DSGD_RING_BYTES"    /* bytes of ring a node */
#define DSGD_SPREAD_BYTES       "DSGD_SPREAD_BYTES" /* summed by all nodes */
#define DSGD_HARD_TIMEOUT       "DSGD_HARD_TIMEOUT" /* seconds, fixed */
#define DSGD_CHECKPOINT_DIR     "DSGD_CHECKPOINT_DIR"
#define DSGD_CHECKPOINT_STEPS   "DSGD_CHECKPOINT_STEPS"   /* every so many */
#define DSGD_CHECKPOINT_MINUTES "DSGD_CHECKPOINT_MINUTES" /* … or so often */
#define DSGD_CHECKPOINT_KEEP    "DSGD_CHECKPOINT_KEEP"    /* so many files */
#define DSGD_AGGREGATOR         "DSGD_AGGREGATOR" /* thread | dedicated */
#define DSGD_MODEX              "DSGD_MODEX"      /* auto | pmix | mpi */
#define DSGD_CONF               "DSGD_CONF"       /* path of dsgd.conf */
#define DSGD_RECORD_DIR         "DSGD_RECORD_DIR" /* where dsgd-report looks */

/* From dsgd-run to the workers that it starts. */
#define DSGD_RUN_FD         "DSGD_RUN_FD" /* an inherited file, see run_box.h */
#define DSGD_RUN_RANK       "DSGD_RUN_RANK"
#define DSGD_RUN_SIZE       "DSGD_RUN_SIZE"
#define DSGD_RUN_LOCAL_RANK "DSGD_RUN_LOCAL_RANK"
#define DSGD_RUN_LOCAL_SIZE "DSGD_RUN_LOCAL_SIZE"
#define DSGD_RUN_RESTART    "DSGD_RUN_RESTART" /* how often started again */

/* DSGD_LAUNCH_TELEMETRY is one line of text,
 *     1;<unix time, seconds>;<name>=<value>;<name>=;…
 * a feature a field, in any order; an empty value means "not valid on this
 * node" (the source is missing, or is the host's and not the node's).  The
 * reader takes it as untrusted text and skips what it does not know. */
#define DSGD_TELEMETRY_FEATURES                                                \
    "other_cpu", "load1", "psi_cpu", "psi_io", "psi_mem", "throttle", "steal", \
        "co_jobs"
#define DSGD_N_TELEMETRY 8

#define DSGD_MAX_PARTS  65536 /* of --dsgd-parts */
#define DSGD_PATH_BYTES 256   /* of a path in an option, final zero included */

#endif
