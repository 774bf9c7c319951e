/* A step within a node (segment_post, segment_take, node_nap, node_show,
 * wait_for_start, read_share, dsgd_reduce, node_reap): workers, their
 * aggregator, a cutoff that may close a step as soon as one has committed, and
 * workers that stop for good in mid-step.  Checked for every interleaving:
 *
 *   - a sum is made of complete gradients of its own step;
 *   - a share that is used belongs to the step that is begun;
 *   - no wake-up is lost: whoever has not stopped comes to the end of the run,
 *     the aggregator too, which has nothing but the bell before a first
 *     commit;
 *   - one of a worker and its helper ends its process, not both.
 *
 * The code's atomic words are sequentially consistent, as all is here; gradient
 * sums are one byte, the step that they are of, 0 while they are written.  A
 * futex wait is to block while the bell is as it was seen.  BREAK_NAP,
 * BREAK_BELL, BREAK_SHARE and BREAK_LATE each undo one line that this rests on:
 * the model must then fail. */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef STEPS
#define STEPS 2
#endif

byte published, started, worker_bell, agg_bell;
bool ended, agg_asleep;

byte committed[WORKERS]; /* step of the last commit queued: the head */
byte taken[WORKERS];     /* and of the last one taken: the tail */
byte slot[WORKERS];
byte assign_step[WORKERS], assign_first[WORKERS];
byte ender[WORKERS]; /* 0: nobody yet, 1: the worker, 2: its helper */
byte stuck;          /* how many have stopped */

inline answer_end(w, who)
{
    atomic {
        if
        :: ender[w] == 0 -> ender[w] = who
        :: else
        fi
    }
}

/* Sleep on the worker bell unless it has rung since it was looked at. */
inline sleep_on_bell()
{
#ifdef BREAK_BELL
    bell = worker_bell;
#endif
    atomic { worker_bell != bell -> bell = 0 }
}

proctype worker(byte me)
{
    byte applied, bell, first;

begin:
    do /* wait_for_start */
    ::  bell = worker_bell;
        if
        :: started > applied || published > applied -> break
        :: else
        fi;
        if
        :: ended -> goto over
        :: else
        fi;
        sleep_on_bell()
    od;
    /* stale: means are missing, or the share is for a later step */
    if
    :: published > applied -> goto means
    :: else
    fi;
    if
    :: assign_step[me] != applied + 1 -> goto means
    :: else
    fi;
    first = assign_first[me];
#ifndef BREAK_SHARE
    if
    :: assign_step[me] != applied + 1 -> first = 0; goto means
    :: else
    fi;
#endif
    assert(first == applied + 1);
    first = 0;
    if
    :: atomic { true -> stuck++ }; goto stopped
    :: skip
    fi;
    /* dsgd_reduce */
    if
    :: published > applied
    :: else ->
        slot[me] = 0;
        slot[me] = applied + 1
    fi;
    committed[me] = applied + 1; /* segment_post */
    if
    :: agg_asleep -> agg_bell++
    :: else
    fi;
means:
    do /* dsgd_next_mean, of all that are there */
    ::  bell = worker_bell;
        if
        :: atomic { published > applied -> applied++ }
        :: else ->
            if
            :: committed[me] <= applied -> break
            :: else
            fi;
            if
            :: ended -> goto over
            :: else
            fi;
            sleep_on_bell()
        fi
    od;
    goto begin;
over:
    answer_end(me, 1);
    assert(ender[me] == 1 || ender[me] == 2);
    goto gone;
stopped: /* its helper waits to be told to end the process in its place */
    ender[me] == 2;
gone:
    skip
}

/* Take the commits that are queued. */
inline take()
{
    w = 0;
    do
    :: atomic { w < WORKERS && committed[w] != taken[w] ->
                taken[w] = committed[w];
                if
#ifdef BREAK_LATE
                :: true -> in[w] = true; any = true
#else
                :: taken[w] == step -> in[w] = true; any = true
                :: else /* late, of an older step */
#endif
                fi;
                w++ }
    :: atomic { w < WORKERS && committed[w] == taken[w] -> w++ }
    :: atomic { w == WORKERS -> w = 0; break }
    od
}

/* node_nap: until somebody has something to say. */
inline nap()
{
    bell = agg_bell;
#ifndef BREAK_NAP
    agg_asleep = true;
#endif
    waiting = false;
    do
    :: atomic { w < WORKERS && committed[w] != taken[w] -> waiting = true;
                w++ }
    :: atomic { w < WORKERS && committed[w] == taken[w] -> w++ }
    :: atomic { w == WORKERS -> w = 0; break }
    od;
#ifdef BREAK_NAP
    agg_asleep = true;
#endif
    if
    :: waiting
    :: else ->
        if
        :: agg_bell != bell
        :: any              /* the cutoff's deadline */
        :: stuck == WORKERS /* all are lost: the hard time-out */
        fi
    fi;
    atomic { agg_asleep = false; waiting = false; bell = 0 }
}

inline let_begin(next)
{
    do
    :: w < WORKERS ->
        assign_step[w] = 0;
        assign_first[w] = next;
        assign_step[w] = next;
        w++
    :: atomic { w == WORKERS -> w = 0; break }
    od;
    started = next
}

proctype aggregator()
{
    byte step = 1, bell, w;
    bool any, waiting, in[WORKERS];

    let_begin(1);
    worker_bell++;
    do
    :: step > STEPS -> break
    :: else ->
        do
        ::  take();
            if
            :: any -> break /* the cutoff: this many are enough */
            :: stuck == WORKERS -> goto end
            :: nap() /* or the rest is waited for, while it lasts */
            fi
        od;
        do
        :: atomic { w < WORKERS -> assert(!in[w] || slot[w] == step);
                    in[w] = false; w++ }
        :: atomic { w == WORKERS -> w = 0; any = false; break }
        od;
        published = step; /* node_show */
        atomic { step++ }
        if
        :: step <= STEPS -> let_begin(step)
        :: else
        fi;
        worker_bell++
    od;
end:
    ended = true;
    worker_bell++;
    do /* node_reap: those that have not answered, perhaps only not yet */
    :: atomic { w < WORKERS ->
                if
                :: ender[w] == 0 -> ender[w] = 2
                :: ender[w] == 1
                fi;
                w++ }
    :: w == WORKERS -> break
    od
}

init
{
    atomic {
        byte n = 0;
        do
        :: n < WORKERS -> run worker(n); n++
        :: else -> break
        od;
        run aggregator()
    }
}
