/* A step in parts within a node (node_parts.c, client_parts.c, client_carry.c):
 * workers that claim parts and offer sums, their aggregator, which accepts them
 * as it has tokens, and one worker that may stop for good anywhere, in the middle
 * of an addition too.  What was computed and not accepted is kept, and offered in
 * the next step if that wants it.  Checked for every interleaving:
 *
 *   - a part that is computed is of the step and has the samples that its number
 *     stands for, and is accepted once, in its step or in the next; in that only
 *     if its samples were held for it;
 *   - the step's sum is made of the parts that were accepted, all of them and
 *     nothing else, and nobody writes to what it reads;
 *   - whoever has not stopped comes to the end of the run, as long as there is a
 *     part more than tokens for each worker that may stop.
 *
 * The code's atomic words are sequentially consistent, as all is here, or
 * released and acquired in the order shown; a sum is one byte: its step and a bit
 * a part, those of the step before first, GARBAGE while it is written.  Bells are those of step.pml, and a sleeper
 * looks again after a while: waiting is blocking here.  BREAK_RECHECK,
 * BREAK_EMPTY, BREAK_DECIDED, BREAK_SLACK, BREAK_FINAL and BREAK_WANTED each undo
 * one line that this rests on: the model must then fail. */
#define WORKERS 2
#define STEPS   2
#define TOKENS  2 /* of a step */
#ifdef BREAK_SLACK
#define PARTS 2
#else
#define PARTS 3
#endif
#define WORD(step, i) ((step) * 8 + (i))
#define STEP(word)    ((word) / 8)
#define INDEX(word)   ((word) % 8)
#define GARBAGE       255
#define SUM(step)     ((step) * 64)
#define CARRIED       PARTS /* added to the number of a part */
#define BUF(w, b)     buffer[(w) * 2 + (b)]

byte published, started, claim, limit;
bool wants = 1; /* of the pool: parts of the step before */
byte part[PARTS]; /* WORD of the step and the part that it is */
byte accepted[WORKERS];
byte buffer[WORKERS * 2];
chan queue = [WORKERS * 2] of { byte, byte, byte, byte }; /* worker, step,
                                                             part, buffer */
byte stuck;

#define OVER (published >= step || STEP(claim) > step)

/* The sum without it is in the other buffer, if there is one. */
inline offer(number)
{
    buf = (offers -> !buf : 0);
    BUF(me, buf) = GARBAGE;
    if
    :: atomic { stuck == 0 -> stuck = 1 }; goto stopped
    :: skip
    fi;
    old = (offers -> BUF(me, !buf) : SUM(step));
    BUF(me, buf) = old | (1 << (number));
    old = 0;
    offers++;
    queue ! me, step, number, buf
}

#define ACCEPTED (accepted[me] == WORD(step, offers))

/* last is what was offered last and may be kept, plus 1. */
inline keep_last()
{
    kept = 0;
    if
    :: last && !ACCEPTED -> kept = last
    :: else
    fi;
    last = 0
}

proctype worker(byte me)
{
    byte step = 1, word, got, offers, buf, old, last, kept, kept_too;
#ifdef BREAK_FINAL
    bool seen;
#endif

begin:
    started >= step || published >= step;
    offers = 0;
    if
    :: published >= step -> kept = 0; kept_too = 0; goto means
    :: else
    fi;
#ifdef BREAK_WANTED
    old = wants;
#endif
    if
    :: kept == 0
    :: kept ->
        if
        :: OVER -> kept = 0; kept_too = 0; goto means
        :: STEP(claim) == step
        fi;
        if
#ifdef BREAK_WANTED
        :: !old -> kept = 0; kept_too = 0
#else
        :: !wants -> kept = 0; kept_too = 0
#endif
        :: else
        fi
    fi;
    old = 0;
    do
    :: kept == 0 -> break
    :: kept ->
        if
        :: OVER -> kept = 0; kept_too = 0; goto means
        :: offers == 0 || ACCEPTED
        fi;
        offer(kept - 1 + CARRIED);
        kept = kept_too;
        kept_too = 0
    od;
again: /* dsgd_claim */
#ifdef BREAK_FINAL
    seen = ACCEPTED;
#endif
    if
    :: OVER ->
#ifdef BREAK_FINAL
        kept = (last && !seen -> last : 0);
        last = 0;
#else
        keep_last();
#endif
        goto means
    :: STEP(claim) == step && limit > claim && STEP(limit) == step
    fi;
    word = claim;
    if
    :: STEP(word) != step || limit <= word || STEP(limit) != step -> goto again
    :: else
    fi;
    atomic {
        if
        :: claim == word -> claim = word + 1
        :: else -> goto again
        fi
    }
    got = part[INDEX(word)];
#ifndef BREAK_RECHECK
    if
    :: STEP(claim) != step -> got = 0; goto again
    :: else
    fi;
#endif
    assert(got == word);
    got = 0;
    if
    :: atomic { stuck == 0 -> stuck = 1 }; goto stopped
    :: skip
    fi;
    /* dsgd_deposit */
#ifndef BREAK_DECIDED
    if
    :: OVER ->
        keep_last();
        if
        :: kept -> kept_too = INDEX(word) + 1
        :: else -> kept = INDEX(word) + 1
        fi;
        goto means
    :: offers == 0 || ACCEPTED
    fi;
#endif
    offer(INDEX(word));
    last = INDEX(word) + 1;
    goto again;
means:
    last = 0;
    published >= step;
    step++;
    if
    :: step <= STEPS -> goto begin
    :: else
    fi;
stopped:
    skip
}

inline accept()
{
    d_step {
        number = waits[w] - 1;
        waits[w] = 0;
        assert(number < CARRIED ||
               (wants && !(before & (1 << (number - CARRIED)))));
        taken = taken | (1 << number);
        sum[w] = sum[w] | (1 << number);
        at[w] = waits_at[w];
        tokens--;
        given++
    }
    accepted[w] = (STEP(accepted[w]) == step -> accepted[w] + 1 : WORD(step, 1));
    w = 0
}

inline start()
{
    if
    :: step == 1 -> started = 1
    :: else -> published = step - 1; started = step
    fi
}

proctype aggregator()
{
    bool begun;
    byte step = 1, i, w, its, number, buf, tokens, reserve, given, taken, before;
    byte sum[WORKERS], at[WORKERS], waits[WORKERS], waits_at[WORKERS];

open: /* take_pool, of a step whose predecessor may be published or not */
    begun = 0;
    if
    :: start(); begun = 1
    :: skip
    fi;
#ifndef BREAK_EMPTY
    claim = 0;
#endif
    before = taken;
    if
    :: step > 1
    :: step > 1 -> wants = 0
    :: step == 1
    fi;
    i = 0;
    do
    :: i < PARTS -> part[i] = WORD(step, i); i++
    :: else -> break
    od;
    limit = WORD(step, PARTS);
    claim = WORD(step, 0);
    d_step {
        taken = 0;
        given = 0;
        tokens = 1;
        reserve = TOKENS - 1;
        i = 0;
        do
        :: i < WORKERS -> sum[i] = 0; waits[i] = 0; i++
        :: else -> break
        od
    }
    if
    :: begun
    :: else -> start()
    fi;
    do
    :: given == TOKENS -> break
    :: atomic { given < TOKENS && reserve -> reserve--; tokens++ }
    :: atomic { given < TOKENS && tokens && waits[0] -> w = 0 }; accept()
    :: atomic { given < TOKENS && tokens && waits[1] -> w = 1 }; accept()
    :: atomic { given < TOKENS && nempty(queue) ->
            queue ? w, its, number, buf };
        if
        :: its == step && (taken & (1 << number)) == 0 ->
            waits[w] = number + 1;
            waits_at[w] = buf
        :: else
        fi;
        w = 0
    od;
    i = 0; /* the sum, chunk by chunk: whenever it looks, it is this */
    do
    :: i < 2 * WORKERS ->
        w = i / 2;
        assert(sum[w] == 0 || BUF(w, at[w]) == (SUM(step) | sum[w]));
        i++
    :: else -> break
    od;
    w = 0;
    step++;
    if
    :: step <= STEPS -> goto open
    :: else -> published = STEPS
    fi;
end:
    do /* offers that are too late */
    :: queue ? w, its, number, buf
    od
}

init
{
    atomic {
        run worker(0);
        run worker(1);
        run aggregator()
    }
}
