/* The ring of mean gradients of a node (segment_pin, segment_reserve): workers
 * read means one by one, however late, while the aggregator goes on.  Checked
 * for every interleaving, with workers that stop for good while they read:
 *
 *   - a mean does not change while a worker reads it;
 *   - the aggregator finds a slot to write: not always at once, as a worker that
 *     reads on while it looks may seem to be everywhere;
 *   - whoever has not stopped comes to the last mean.
 *
 * The code's atomic words are sequentially consistent, as all is here; a mean is
 * one byte, the step that it is of, 0 while it is being written.  BREAK_PIN,
 * BREAK_ORDER and BREAK_SCAN each undo one line that this rests on: the model
 * must then fail. */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef STEPS
#define STEPS 5
#endif
#define SLOTS (WORKERS + 1) /* the least that is enough; the code has one more */
#define NONE  255

byte published;
byte pin[WORKERS];
byte mean_step[SLOTS], ring[SLOTS];

proctype worker(byte me)
{
    byte applied, at;

    do
    :: applied == STEPS -> break
    :: published > applied ->
#ifndef BREAK_ORDER
        pin[me] = applied + 1;
#endif
        at = 0; /* segment_find */
        do
        :: atomic { at < SLOTS && mean_step[at] != applied + 1 -> at++ }
        :: atomic { at < SLOTS && mean_step[at] == applied + 1 -> break }
        :: atomic { at == SLOTS -> break }
        od;
#ifdef BREAK_ORDER
        pin[me] = applied + 1;
#endif
        if
        :: at == SLOTS -> /* the ring lost it: another's state is taken */
            pin[me] = 0;
            atomic { applied = published; at = 0 }
        :: else ->
            assert(ring[at] == applied + 1);
            if
            :: goto stopped
            :: skip
            fi;
            assert(ring[at] == applied + 1);
            atomic { pin[me] = 0; applied++; at = 0 }
        fi
    od;
    goto done;
stopped: /* and keeps its pin: nobody may ever write there again */
    if
    :: published == STEPS -> assert(ring[at] == applied + 1)
    fi;
done:
    skip
}

/* Whether a step is pinned: one pin is read at a time. */
inline look_for_pins(step)
{
    atomic { i = 0; busy = false }
    do
    :: atomic { i < WORKERS && step != 0 && pin[i] != step -> i++ }
    :: atomic { i < WORKERS && step != 0 && pin[i] == step -> busy = true;
                break }
    :: atomic { i == WORKERS || step == 0 -> break }
    od;
    i = 0
}

proctype aggregator()
{
    byte step = 1, at, s, seen, oldest, i;
    bool busy;

    do
    :: step > STEPS -> break
    :: else ->
        do /* segment_reserve */
        ::  atomic { at = NONE; oldest = NONE; s = 0 }
            do
            :: s < SLOTS ->
                seen = mean_step[s];
                if
                :: seen < oldest ->
                    look_for_pins(seen);
                    if
                    :: atomic { !busy -> at = s; oldest = seen }
                    :: else
                    fi
                :: else
                fi;
                atomic { s++; seen = 0; busy = false }
            :: else -> break
            od;
#ifdef BREAK_SCAN
            assert(at != NONE);
#endif
            if
            :: at == NONE
            :: else ->
                mean_step[at] = 0;
#ifdef BREAK_PIN
                break;
#endif
                look_for_pins(oldest);
                if
                :: !busy -> break
                :: else -> mean_step[at] = oldest
                fi
            fi
        od;
        ring[at] = 0;
        ring[at] = step;
        mean_step[at] = step;
        atomic { published = step; step++; at = 0; oldest = 0; s = 0;
                 busy = false }
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
