/* First parts within a node, of steps whose work the timing model sizes
 * (node_parts.c, client_parts.c); what else there is to a step in parts is in
 * parts.pml.  Worker 0 may stop for good anywhere, in the middle of an addition
 * too.  Part 0 is its first part: it is not claimed, has a token of its own, and
 * may be withdrawn while it is not in.  Before that it may have a part of an
 * earlier step to offer, KEPT.  Checked for every interleaving:
 *
 *   - a part that is computed is of the step and has the samples that its number
 *     stands for, and is accepted once;
 *   - the step's sum is made of the parts that were accepted, all of them and
 *     nothing else, and nobody writes to what it reads;
 *   - whoever has not stopped comes to the end of the run, as long as there is a
 *     part more than tokens for each worker that may stop, and first parts of
 *     who has stopped are withdrawn.
 *
 * Memory and sums are as in parts.pml.  BREAK_DECIDED, BREAK_REFUSED,
 * BREAK_FORGET and BREAK_WITHDRAW each undo one line that this rests on: the
 * model must then fail. */
#define WORKERS 2
#define STEPS   2
#define TOKENS  2 /* of a step, the first part's among them */
#define PARTS   4
#define KEPT    PARTS /* the number of the part that was kept */
#define WORD(step, i) ((step) * 16 + (i))
#define STEP(word)    ((word) / 16)
#define INDEX(word)   ((word) % 16)
#define GARBAGE       255
#define BUF(w, b)     buffer[(w) * 2 + (b)]

byte published, started, claim, limit;
byte part[PARTS]; /* WORD of the step and the part that it is */
byte there;       /* samples of part 0; 0: it was withdrawn */
byte accepted[WORKERS];
byte buffer[WORKERS * 2];
chan queue = [WORKERS * 2] of { byte, byte, byte, byte }; /* worker, step,
                                                             part, buffer */
#define OVER      (published >= step || STEP(claim) > step)
#define WITHDRAWN (there == 0 && STEP(claim) == step)

proctype worker(byte me)
{
    byte step = 1, word, got, offers, buf, old;
    bool had, first; /* its first part was taken; the last offer was of that */

begin:
    started >= step || published >= step;
    offers = 0;
    had = me != 0;
    first = 0;
    if
    :: published >= step -> goto means
    :: else
    fi;
    if
    :: me == 0 && step == 1 ->
        if
        :: OVER -> goto means
        :: STEP(claim) == step -> word = WORD(step, KEPT); goto add
        fi
    :: skip
    fi;
again: /* dsgd_claim */
    if
    :: OVER -> goto means
    :: STEP(claim) == step && limit > claim && STEP(limit) == step
    :: STEP(claim) == step && !had
    fi;
    if
    :: !had ->
        had = 1;
        word = WORD(step, 0);
        got = part[0];
        old = there;
        if
        :: STEP(claim) != step || !old -> got = 0; old = 0; goto again
        :: else -> old = 0; goto check
        fi
    :: else
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
    if
    :: STEP(claim) != step -> got = 0; goto again
    :: else
    fi;
check:
    assert(got == word);
    got = 0;
    if
    :: me == 0 -> goto stopped
    :: skip
    fi;
    /* dsgd_deposit */
#ifndef BREAK_DECIDED
    if
    :: OVER -> goto means
    :: offers == 0 || accepted[me] == WORD(step, offers)
    :: offers && first && WITHDRAWN ->
#ifdef BREAK_REFUSED
        skip
#else
#ifdef BREAK_FORGET
        offers = 0
#else
        offers--;
        buf = !buf
#endif
#endif
    fi;
#endif
add:
    buf = (offers -> !buf : 0);
    BUF(me, buf) = GARBAGE;
    if
    :: me == 0 -> goto stopped
    :: skip
    fi;
    old = (offers -> BUF(me, !buf) : step * 32);
    BUF(me, buf) = old | (1 << INDEX(word));
    old = 0;
    offers++;
    first = INDEX(word) == 0;
    queue ! me, step, INDEX(word), buf;
    word = 0;
    goto again;
means:
    word = 0;
    buf = 0;
    offers = 0;
    first = 0;
    had = 0;
    published >= step;
    d_step { /* what was there means nothing to anybody any more */
        BUF(me, 0) = 0;
        BUF(me, 1) = 0;
        step++
    }
    if
    :: step <= STEPS -> goto begin
    :: else
    fi;
stopped: /* fewer states */
    step = 0;
    word = 0;
    buf = 0;
    offers = 0;
    first = 0;
    had = 0
}

/* Nobody else writes or reads any of this but `accepted`. */
inline accept()
{
    number = waits[w] - 1;
    waits[w] = 0;
    taken = taken | (1 << number);
    sum[w] = sum[w] | (1 << number);
    at[w] = waits_at[w];
    waits_at[w] = 0;
    tokens = (number -> tokens - 1 : tokens);
    given++;
    accepted[w] =
        (STEP(accepted[w]) == step -> accepted[w] + 1 : WORD(step, 1));
    number = 0;
    w = 0
}

/* What waits is accepted when there are tokens for it. */
inline settle()
{
    if
    :: tokens && waits[0] -> w = 0; accept()
    :: tokens && waits[1] -> w = 1; accept()
    :: else
    fi
}

proctype aggregator()
{
    byte step = 1, i, w, its, number, buf, tokens, reserve, given, taken;
    byte sum[WORKERS], at[WORKERS], waits[WORKERS], waits_at[WORKERS];

open: /* take_pool, of a step whose predecessor may not be published yet */
    claim = 0;
    d_step { /* who reads any of it looks at claim then: see parts.pml */
        i = 0;
        do
        :: i < PARTS -> part[i] = WORD(step, i); i++
        :: else -> break
        od;
        i = 0;
        there = 1;
        limit = WORD(step, PARTS)
    }
    d_step { claim = WORD(step, 1); reserve = TOKENS - 1 }
    if
    :: step == 1 -> started = 1
    :: else -> published = step - 1; started = step
    fi;
    do
    :: given == TOKENS -> break
    :: atomic { given < TOKENS && reserve -> reserve--; tokens++; settle() }
#ifndef BREAK_WITHDRAW
    :: atomic { given < TOKENS && there && (taken & 1) == 0 ->
            there = 0; reserve++ }
#endif
    :: atomic { given < TOKENS && nempty(queue) ->
            queue ? w, its, number, buf;
            if
            :: its == step && number == 0 && there && (taken & 1) == 0 ->
                waits[w] = 1;
                waits_at[w] = buf;
                accept()
            :: its == step && number && (taken & (1 << number)) == 0 ->
                waits[w] = number + 1;
                waits_at[w] = buf;
                settle()
            :: else
            fi;
            its = 0;
            number = 0;
            buf = 0;
            w = 0 }
    od;
    i = 0;
    d_step { /* the sum: whenever it looks, it is this */
        do
        :: i < WORKERS ->
            assert(sum[i] == 0 || BUF(i, at[i]) == (step * 32 | sum[i]));
            sum[i] = 0;
            at[i] = 0;
            waits[i] = 0;
            waits_at[i] = 0;
            i++
        :: else -> break
        od;
        i = 0;
        taken = 0;
        given = 0;
        tokens = 0;
        reserve = 0
    }
    step++;
    if
    :: step <= STEPS -> goto open
    :: else -> published = STEPS
    fi
    /* Offers that are too late stay in the queue, which has room for them. */
}

init
{
    atomic {
        run worker(0);
        run worker(1);
        run aggregator()
    }
}
