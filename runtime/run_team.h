/* The workers of a node as processes: started, watched, started again. */
#ifndef DSGD_RUN_TEAM_H
#define DSGD_RUN_TEAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "dsgd_error.h"
#include "run_box.h"

struct run_team;

struct run_team_spec {
    char *const *command;
    struct run_box_place place;
    struct run_box *box;
    int box_fd;
    uint32_t restarts; /* of each worker */
    size_t threads;    /* of each */
    bool label;
    const char *host; /* for messages */
};

/* Block the signals that a team waits for; before any thread is started. */
void run_team_signals(void);

/* Errors: DSGD_E_NOMEM. */
enum dsgd_err run_team_create(const struct run_team_spec *spec,
                              struct run_team **t, struct dsgd_error *err);
void run_team_destroy(struct run_team *t); /* kills who is left; NULL is fine */

/* Start all workers.  Errors: those of run_child_start. */
enum dsgd_err run_team_start(struct run_team *t, struct dsgd_error *err);

/* The segment is made: workers that die are buried in it from now on. */
void run_team_segment(struct run_team *t, struct segment *seg);

/* Sleep until something happens, timeout_ms at most; bury the dead, start
 * others in their place, pass signals and output on. */
void run_team_tick(struct run_team *t, int timeout_ms);

/* Kill all workers; those that have not opened the run. */
void run_team_kill(struct run_team *t);
void run_team_kill_unopened(struct run_team *t);

/* All workers that are left, and some are, have opened the run. */
bool run_team_opened(const struct run_team *t);

/* Workers that run or will be started again. */
uint32_t run_team_left(const struct run_team *t);

/* The exit code of the first worker that failed where no other can take its
 * place: before the run is open, or after its end.  0: none. */
int run_team_failed(const struct run_team *t);

/* The exit code of the last worker that died.  0: none. */
int run_team_last_death(const struct run_team *t);

/* A signal that ends a job was passed on. */
bool run_team_interrupted(const struct run_team *t);

/* One line that names the workers which were lost or started again; nothing
 * when there were none. */
void run_team_report(const struct run_team *t, FILE *out);

#endif
