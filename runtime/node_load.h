/* A node's load while a run is under way, in the features of the launch
 * telemetry: what others than the run's own workers do to the node since the
 * last look. */
#ifndef DSGD_NODE_LOAD_H
#define DSGD_NODE_LOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "dsgd_names.h"

struct node_load;

/* Returns NULL without memory: a run goes on without telemetry. */
struct node_load *node_load_create(void);
void node_load_free(struct node_load *l);

/* Look again.
 *   own_cpu_s  in   processor time used so far by the run's own processes here
 *   now_s      in   seconds on any steady clock
 *   value      out  [DSGD_N_TELEMETRY] NaN: not valid on this node
 * Reads a few small files, at most once in NODE_LOAD_EVERY_S.  Returns whether
 * there is news. */
#define NODE_LOAD_EVERY_S 0.5
bool node_load_look(struct node_load *l, double own_cpu_s, double now_s,
                    float *value);

#endif
