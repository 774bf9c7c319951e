/* The aggregator's work in turns (aggregator_drive.c, node_nap, node_watch,
 * node_unwatch, segment_post, segment_doze, segment_call): its thread, the
 * worker of its process, which works for it while it waits, and a worker of
 * another process.  Each begins and commits every step, whose mean is there once
 * both commits were taken.  Checked for every interleaving:
 *
 *   - one at a time does the work;
 *   - no wake-up is lost, though nobody rings for whom nobody needs: all three
 *     come to the end of the run, though no nap ends by itself.
 *
 * A BEGIN does not ring, nor, while the thread's own worker computes, a COMMIT,
 * which that worker finds when it commits.  Of a bell each who sleeps on it
 * knows whether it has rung since he read it.  Sleepers on the worker bell are
 * woken by a system call, which is left out when none seems to sleep; a ring of
 * the other bell is one.  Each BREAK undoes one line that this rests on: the
 * model must then fail. */
#ifndef STEPS
#define STEPS 2
#endif
#define BEGIN  1
#define COMMIT 2
#define AWAKE    0
#define LIGHTLY  1
#define COMPUTES 2

byte queued[2], taken[2]; /* events: BEGIN and COMMIT of each step */
byte published, dozing, asleep;
bool agg_bell;       /* has rung since the thread read it */
bool worker_bell[2]; /* the same for each worker */
bool turn, wanted, working;
bool sleeps[2];

#define ended  (published == STEPS)
#define events (queued[0] != taken[0] || queued[1] != taken[1])

inline post(w, kind)
{
    queued[w]++;
    if
    :: asleep == LIGHTLY && kind == COMMIT -> agg_bell = true
    :: else
    fi
}

inline ring()
{
    d_step { worker_bell[0] = true; worker_bell[1] = true }
}

/* segment_call */
inline call()
{
#ifdef BREAK_CALL
    any = dozing != 0;
    ring();
#else
    ring();
    any = dozing != 0;
#endif
    if
    :: atomic { any -> any = false; ring();
        sleeps[0] = false; sleeps[1] = false }
    :: else
    fi
}

/* Take what was posted, and show the mean of which it is the last. */
inline look()
{
    atomic {
        assert(!working);
        working = true;
        did = queued[0] != taken[0];
        taken[0] = queued[0]
    }
    atomic {
        did = did || queued[1] != taken[1];
        taken[1] = queued[1]
    }
    if
    :: taken[0] >= 2 * published + 2 && taken[1] >= 2 * published + 2 ->
        atomic { published++; did = true };
        call()
    :: else
    fi;
    working = false
}

/* Not for ever: there may be more, for the thread. */
inline look_at_all()
{
    more = true;
    do
    :: ended -> break
    :: else ->
        look();
        if
        :: did
        :: did -> break
        :: did && !events -> more = false; break /* coordinator_rests */
        :: else -> more = false; break
        fi
    od;
    did = false
}

inline try_turn()
{
    atomic {
        if
#ifdef BREAK_TURN
        :: !ended -> got = true
#else
        :: !wanted && !ended && !turn -> turn = true; got = true
#endif
        :: else -> got = false
        fi
    }
    if
    :: got -> asleep = AWAKE
    :: else
    fi
}

inline unwatch(until)
{
    asleep = until;
#ifndef BREAK_UNWATCH
    if
    :: events -> agg_bell = true
    :: else
    fi
#endif
}

inline hand_back(until)
{
    unwatch(until);
#ifndef BREAK_END
    if
    :: more || ended -> agg_bell = true
    :: else
    fi;
#endif
    more = false
}

inline leave(until)
{
    look_at_all();
    turn = false;
    hand_back(until)
}

inline post_own(kind)
{
    try_turn();
    if
    :: got ->
        got = false;
        post(0, kind);
        if
        :: kind == BEGIN -> leave(COMPUTES)
        :: else -> leave(LIGHTLY)
        fi
    :: else -> post(0, kind)
    fi
}

/* Sleep while the bell is as it was seen. */
inline doze(me)
{
    dozing++;
    atomic { sleeps[me] = !worker_bell[me] };
    atomic { !sleeps[me] -> dozing-- }
}

#ifdef BREAK_COMPUTES
#define DOZES COMPUTES
#else
#define DOZES LIGHTLY
#endif

/* aggregator_drive, which may look once or more often. */
inline drive()
{
    do
    :: try_turn();
        if
        :: got -> look(); turn = false
        :: else
        fi;
        if
        :: worker_bell[0] -> break
        :: true -> break
        :: !got -> !turn /* looks again when that has changed */
        fi
    od;
    did = false;
    got = false;
    if
    :: worker_bell[0] -> hand_back(COMPUTES)
    :: else ->
        try_turn();
        if
        :: got -> got = false; leave(DOZES)
        :: else -> more = true; hand_back(DOZES)
        fi
    fi
}

active proctype own()
{
    byte step;
    bool any, got, did, more;

    do
    :: step == STEPS -> break
    :: else ->
        step++;
        post_own(BEGIN);
        post_own(COMMIT);
        do
        ::  worker_bell[0] = false;
            if
            :: published >= step -> break
            :: else
            fi;
            drive();
            if
            :: !worker_bell[0] -> doze(0)
            :: else
            fi
        od
    od
}

active proctype other()
{
    byte step;

    do
    :: step == STEPS -> break
    :: else ->
        atomic { step++; post(1, BEGIN) };
        post(1, COMMIT);
        do
        ::  worker_bell[1] = false;
            if
            :: published >= step -> break
            :: else -> doze(1)
            fi
        od
    od
}

active proctype thread()
{
    bool any, did;

    do
    ::  if
        :: atomic { !turn -> turn = true }
        :: turn -> wanted = true;
            atomic { !turn -> turn = true };
            wanted = false
        fi;
        asleep = AWAKE;
        agg_bell = false;
        if
        :: ended -> turn = false; break
        :: else
        fi;
        look();
        turn = false;
        if
        :: did
        :: else -> /* node_nap */
#ifdef BREAK_BELL
            agg_bell = false;
#endif
#ifdef BREAK_NAP
            if
            :: events
            :: else -> asleep = LIGHTLY;
#else
            asleep = LIGHTLY;
            if
            :: events
            :: else ->
#endif
                agg_bell
            fi
        fi;
        did = false
    od
}
