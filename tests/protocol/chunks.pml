/* Sums of a node by several hands (chunks.h: chunks_begin, chunks_claim,
 * chunks_do, take_over, chunks_abandon; segment_reserve, segment_join): workers
 * that wait claim chunks of the sum that the aggregator has announced, and stop
 * for good, or die and are replaced, at any point; the aggregator gives helpers
 * up at any time, does their chunks again in another slot of the ring, and goes
 * on with the next sum; or it gives a sum up itself and makes another of the
 * same step, as when a node was taken out.  Checked for every interleaving:
 *
 *   - a mean that is shown is all of it of its own step, and stays so;
 *   - nobody writes to a slot that holds a mean, or that somebody else was given
 *     to write;
 *   - when nobody moves any more there is a slot to be had.
 *
 * The code's atomic words are sequentially consistent, as all is here.  A chunk
 * of a slot is one byte, the step whose gradients were summed, 0 while it is
 * written; gradients are one byte, 0 once their owners are at the next step.
 * Each BREAK undoes one line that this rests on: the model must then fail. */
#ifndef WORKERS
#define WORKERS 1
#endif
#ifndef STEPS
#define STEPS 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#define CHUNKS 2
#define SLOTS  (WORKERS + 2)
#define NONE   255
#define CLOSED 9

/* A slot's chunks lie at slot * CHUNKS. */
byte ring[SLOTS * CHUNKS];
byte mean_step[SLOTS];
byte writing[WORKERS]; /* slot, plus 1 */

byte claim_job, claim_next = CLOSED, sum_slot; /* the announced sum */
byte done[CHUNKS];
#define OPEN(job) (2 * (job))
#define DONE(job) (2 * (job) + 1)
byte gradients;
byte deaths, resting;
bool over;

proctype worker(byte me)
{
    byte job, chunk, slot, sum;
    bool mine;

    do
    :: over -> break
    ::  /* chunks_claim */
        atomic { !over && claim_next < CHUNKS ->
                 job = claim_job; chunk = claim_next }
        slot = sum_slot;
#ifndef BREAK_WRITING
        writing[me] = slot + 1;
#endif
        atomic {
            mine = claim_next == chunk;
#ifndef BREAK_JOB
            mine = mine && claim_job == job;
#endif
            if
            :: mine -> claim_next++
            :: else
            fi
        }
#ifdef BREAK_WRITING
        writing[me] = slot + 1;
#endif
        if
        :: mine
        :: else -> goto through
        fi;
        /* chunks_do */
        if
        :: atomic { true -> resting++ }; goto stopped
        :: atomic { deaths < DEATHS -> deaths++ }; goto through /* its successor */
        :: skip
        fi;
        sum = gradients;
        atomic {
            assert(mean_step[slot] == 0);
            ring[slot * CHUNKS + chunk] = 0
        }
        if
        :: atomic { true -> resting++ }; goto stopped
        :: atomic { deaths < DEATHS -> deaths++ }; goto through
        :: skip
        fi;
        atomic {
            assert(mean_step[slot] == 0);
            ring[slot * CHUNKS + chunk] = sum
        }
#ifdef BREAK_DONE
        done[chunk] = DONE(claim_job);
#else
        atomic {
            if
            :: done[chunk] == OPEN(job) -> done[chunk] = DONE(job)
            :: else
            fi
        }
#endif
through:
        atomic { writing[me] = 0; job = 0; chunk = 0; slot = 0; sum = 0;
                 mine = false }
    od;
    atomic { resting++ }
stopped:
    skip
}

/* A ring slot for the aggregator to write, in at. */
inline reserve()
{
    do
    ::  atomic { at = NONE; oldest = NONE; s = 0; rested = resting }
        do
        :: s < SLOTS ->
            atomic { i = 0; busy = false }
#ifndef BREAK_RESERVE
            do /* one word is read at a time */
            :: atomic { i < WORKERS && writing[i] != s + 1 -> i++ }
            :: atomic { i < WORKERS && writing[i] == s + 1 -> busy = true;
                        break }
            :: atomic { i == WORKERS -> break }
            od;
#endif
            atomic {
                if
                :: !busy && mean_step[s] < oldest ->
                    at = s; oldest = mean_step[s]
                :: else
                fi;
                s++
            }
        :: else -> break
        od;
        if
        :: at == NONE -> assert(rested < WORKERS)
        :: else -> break
        fi
    od;
    atomic { mean_step[at] = 0; oldest = 0; s = 0; i = 0; busy = false;
             rested = 0 }
}

inline sum_chunk(slot, chunk)
{
    ring[slot * CHUNKS + chunk] = 0;
    ring[slot * CHUNKS + chunk] = gradients
}

inline announce()
{
    atomic { job++; claim_job = job; claim_next = CLOSED }
    done[0] = OPEN(job);
    done[1] = OPEN(job);
    sum_slot = mine;
    claim_next = 0
}

/* Every chunk has been claimed, and helpers are waited for no longer. */
inline take_over()
{
    reserve();
    c = 0;
    do
#ifdef BREAK_SAME
    :: at == mine -> break
#endif
    :: c < CHUNKS ->
        if
        :: done[c] == DONE(job) ->
            if
            :: at != mine ->
                ring[at * CHUNKS + c] = ring[mine * CHUNKS + c]
            :: else
            fi
        :: else -> sum_chunk(at, c)
        fi;
        c++
    :: else -> break
    od;
    atomic { mine = at; at = 0; c = 0 }
}

proctype aggregator()
{
    byte step, job, mine = NONE, at, oldest, s, i, c, rested;
    bool busy, given_up;

next:
    atomic { step++; gradients = step }
again:
    if
    :: mine == NONE -> reserve(); atomic { mine = at; at = 0 }
    :: else
    fi;
    announce();
    do
    :: atomic { claim_next < CHUNKS -> c = claim_next; claim_next++ };
        sum_chunk(mine, c);
        done[c] = DONE(job);
        c = 0
    :: claim_next >= CHUNKS -> break
    :: !given_up -> /* chunks_abandon, clean_slot */
        given_up = true;
#ifndef BREAK_ABANDON
        claim_next = CLOSED;
#endif
        if
        :: done[0] == DONE(job) && done[1] == DONE(job)
        :: else -> mine = NONE
        fi;
        goto again
    od;
    do
    :: done[0] == DONE(job) && done[1] == DONE(job) -> break
    :: done[0] != DONE(job) || done[1] != DONE(job) -> take_over(); break
    od;
    atomic { /* node_commit */
        assert(ring[mine * CHUNKS] == step && ring[mine * CHUNKS + 1] == step);
        mean_step[mine] = step;
        mine = NONE;
        gradients = 0;
        c = 0;
        do
        :: c < SLOTS ->
            assert(!mean_step[c] || (ring[c * CHUNKS] == mean_step[c] &&
                                     ring[c * CHUNKS + 1] == mean_step[c]));
            c++
        :: else -> break
        od;
        c = 0
    };
    if
    :: step < STEPS -> goto next
    :: else -> over = true
    fi
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
