/* Sums that a node sends before they are asked for (node_early.c, exchange.c,
 * coordinator_early.c, peers.c; of aggregator.c on_close, on_publish): node 1
 * with two workers, the coordinator on node 0 with one; a cutoff that waits for
 * all who live, of whom any may give nothing to a step or be taken for lost and
 * heard of again; node 1 taken out in the middle of a sum; and a state that node
 * 0's worker lacks, which only node 1 can give, over the channel that early sums
 * go through.  A sum is its mask, the workers whose gradients are in it.
 * Checked for every interleaving: what is published is the sum of just those
 * whose samples the coordinator counts, and every run ends.
 *
 * Each BREAK undoes one line that this rests on: the model must then fail. */
#ifndef STEPS
#define STEPS 2
#endif
#define EARLY 0
#define ALL   3 /* of node 1: bit w is its worker w */

mtype = { GIVES, NOTHING, CLOSE, START, SUM, STATE };

chan up = [2] of { mtype, byte, byte };         /* worker, step */
chan up_bulk = [1] of { mtype, byte, byte, byte }; /* step, attempt, mask */
chan down = [3] of { mtype, byte, byte, byte };  /* step, attempt, mask */
chan publish = [1] of { byte };

bool asks, ended; /* GIVE is on its way, or its answer */
byte at_step;     /* that node 1's workers may work on */

/* Its two workers and its aggregator: one gives or does not, then the other. */
proctype node_1()
{
    byte published, given, early, plan, attempt, mask, step, a, m;
    bool told_0, told_1, waits, gives;

end:
    do
    :: atomic { down?START(step, _, _) ->
        early = step; given = 0; told_0 = false; told_1 = false;
        at_step = step; step = 0 }
    :: atomic { at_step == published + 1 && !told_0 && len(up) < 2 ->
        told_0 = true;
        if
        :: up!GIVES(0, at_step); given = given | 1
        :: up!NOTHING(0, at_step)
        fi }
    :: atomic { at_step == published + 1 && !told_1 && len(up) < 2 ->
        told_1 = true;
        if
        :: up!GIVES(1, at_step); given = given | 2
        :: up!NOTHING(1, at_step)
        fi }
    /* node_early_give */
    :: atomic { early == published + 1 && given == ALL && plan < early ->
        plan = early; attempt = EARLY; mask = ALL; waits = true; early = 0 }
    /* on_close */
    :: atomic { down?CLOSE(step, a, m) ->
        if
        :: step == published + 1 ->
            plan = step; attempt = a; mask = m; waits = true
        :: else
        fi;
        step = 0; a = 0; m = 0 }
    /* exchange_pump: a bulk message at a time */
    :: atomic { waits && len(up_bulk) == 0 ->
        up_bulk!SUM(plan, attempt, mask); waits = false }
    :: atomic { asks && !gives -> gives = true }
    :: atomic { gives && len(up_bulk) == 0 ->
        up_bulk!STATE(0, 0, 0); gives = false; asks = false }
    /* on_publish */
    :: atomic { publish?step ->
        published = step; waits = false; plan = 0; step = 0 }
    od
}

/* Of the coordinator. */
byte step = 1, arrived, settled, published, refused, plan_step, plan_attempt;
byte attempt, sum_mask, early_step;
bool open, closing, lost, ready;
bool own, lacks, was_lacking; /* its worker has given; lacks a state */

/* The sum in node 1's only buffer here. */
byte held_step, held_attempt, held_mask;
#define REFUSED (held_attempt == EARLY && held_step <= refused)
#ifdef BREAK_ATTEMPT
#define PLANNED (plan_step == held_step)
#define STALE   (held_step <= published || REFUSED)
#else
#define PLANNED (plan_step == held_step && plan_attempt == held_attempt)
#define STALE                                                           \
    (held_step <= published || REFUSED ||                               \
     (plan_step == held_step && held_attempt < plan_attempt))
#endif

inline begin_step()
{
    open = true; arrived = 0; settled = 0; attempt = 0; ready = false;
    own = false;
    early_step = (lost -> 0 : step);
    down!START(step, 0, 0)
}

proctype coordinator()
{
    byte w, s;

end:
    do
    :: atomic { !open && !closing && step <= STEPS && nfull(down) ->
        begin_step() }
    /* on_commit */
    :: atomic { up?GIVES(w, s) ->
        if
        :: open && s == step -> arrived = arrived | (1 << w);
            settled = settled | (1 << w)
        :: else
        fi;
        lost = false; w = 0; s = 0 }
    :: atomic { up?NOTHING(w, s) ->
        if
        :: open && s == step -> settled = settled | (1 << w)
        :: else
        fi;
        lost = false; w = 0; s = 0 }
    /* its own worker, which may lack a state first */
    :: atomic { open && !own && !lacks && !was_lacking ->
        lacks = true; was_lacking = true }
    :: atomic { open && !own && !lacks -> own = true }
    /* ask_state, again and again */
    :: atomic { open && lacks && (!asks
#ifndef BREAK_REFUSE
                || refused < step
#endif
                ) ->
        asks = true;
#ifndef BREAK_REFUSE
        early_step = 0;
        refused = step
#endif
        }
    /* whom is not waited for */
    :: atomic { open && settled != ALL && !lost -> lost = true }
    /* begin_close */
    :: atomic { open && own && (settled == ALL || lost) && nfull(down) ->
        open = false; closing = true; sum_mask = arrived;
        if
#ifdef BREAK_ALL
        :: early_step == step && !attempt && arrived ->
#else
        :: early_step == step && !attempt && arrived == ALL ->
#endif
            plan_attempt = EARLY
        :: else ->
            attempt++;
            plan_attempt = attempt;
            if
            :: arrived -> down!CLOSE(step, attempt, arrived)
            :: else -> ready = true
            fi
        fi;
        plan_step = step }
    /* exchange_pump */
    :: atomic { !held_step && up_bulk?[SUM, _, _, _] ->
        up_bulk?SUM(held_step, held_attempt, held_mask) }
    :: atomic { !held_step && up_bulk?[STATE, _, _, _] ->
        up_bulk?STATE(_, _, _);
        lacks = false }
    :: atomic { held_step && STALE -> held_step = 0 }
    :: atomic { held_step && !STALE && closing && !ready && PLANNED ->
        assert(held_mask == sum_mask);
        ready = true;
        held_step = 0 }
    /* drop_late_nodes: its workers' gradients are for later */
    :: atomic { closing && !ready && !lost ->
        lost = true; attempt++; sum_mask = 0;
        plan_attempt = attempt; ready = true }
    /* publish */
    :: atomic { closing && ready && nfull(publish) ->
        publish!step; published = step; step++; closing = false }
    :: atomic { step > STEPS && !ended -> ended = true }
    od
}

init
{
    atomic {
        run node_1();
        run coordinator()
    };
    timeout;
    assert(ended)
}
