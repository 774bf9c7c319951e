/* A share in parts (client_parts.c, node_parts.c, coordinator_deposits.c): a
 * worker that adds part after part to what it has given, its node, and the
 * coordinator, which closes a step when it likes, with what it knows of.  The
 * worker may stop for good anywhere, in the middle of an addition too; events and
 * what the coordinator knows (KNOWN) take their time, and a closing step may be
 * opened again, with another mask.  Checked for every interleaving:
 *
 *   - a sum is made of the parts that the coordinator counted, all of them and
 *     nothing else, and nobody writes to what it reads;
 *   - whoever has not stopped comes to the end of the run.
 *
 * A sum is a byte: its step and how many parts it has, GARBAGE while it is
 * written.  The sum is looked at twice, as it takes a while.  BREAK_KNOWN lets
 * the worker go on before its last deposit is known of, BREAK_CLOSING says that
 * it is while the step closes, BREAK_STEP takes what is known of a step for the
 * next: the model must then fail. */
#define PARTS   3
#define STEPS   2
#define WORD(step, i) ((step) * 8 + (i))
#define STEP(word)    ((word) / 8)
#define INDEX(word)   ((word) % 8)
#define GARBAGE       255

byte published, started;
byte accepted; /* WORD of a step and of the deposits known of */
byte buffer[2];
chan events = [PARTS + 1] of { byte, byte, byte }; /* step, deposits, buffer */
chan known = [1] of { byte, byte };                /* step, deposits */
bool stuck;

proctype worker()
{
    byte step = 1, given, buf, old;

begin:
    started >= step || published >= step;
    given = 0;
again:
    if /* computing, and maybe stopped */
    :: stuck = true; goto stopped
    :: skip
    fi;
#ifdef BREAK_KNOWN
    if
    :: published >= step -> goto means
    :: else
    fi;
#else
    if
    :: published >= step -> goto means
#ifdef BREAK_STEP
    :: given == 0 || INDEX(accepted) >= given
#else
    :: given == 0 || accepted == WORD(step, given)
#endif
    fi;
#endif
    buf = (given -> !buf : 0);
    buffer[buf] = GARBAGE;
    if
    :: stuck = true; goto stopped
    :: skip
    fi;
    old = (given -> buffer[!buf] : WORD(step, 0));
    given++;
    buffer[buf] = old + 1;
    old = 0;
    events ! step, given, buf;
    if
    :: given < PARTS -> goto again
    :: else
    fi;
means:
    published >= step;
    step++;
    if
    :: step <= STEPS -> goto begin
    :: else
    fi;
stopped:
    skip
}

/* Its aggregator's hands: KNOWN comes when it comes. */
proctype node()
{
    byte step, count;

end:
    do
    :: known ? step, count ->
        if
        :: WORD(step, count) > accepted -> accepted = WORD(step, count)
        :: else
        fi
    od
}

inline hear()
{
    events ? its, count, at;
    if
    :: its == step -> given = count; buf = at; due = true
    :: else
    fi
}

inline tell()
{
    known ! step, given;
    due = false
}

proctype coordinator()
{
    byte step = 1, its, count, at, given, buf, mask_given, mask_buf, again;
    bool due;

open:
    given = 0;
    buf = 0;
    due = false;
    again = 1;
    started = step;
    do
    :: given == PARTS || stuck || step == 1 -> break /* or waits for more */
    :: nempty(events) -> hear()
    :: due && nfull(known) -> tell()
    od;
close:
    mask_given = given;
    mask_buf = buf;
    do /* the sum is made; more may be heard of meanwhile */
    :: nempty(events) -> hear()
#ifdef BREAK_CLOSING
    :: due && nfull(known) -> tell()
#endif
    :: assert(mask_given == 0 ||
              buffer[mask_buf] == WORD(step, mask_given)) -> break
    od;
    assert(mask_given == 0 || buffer[mask_buf] == WORD(step, mask_given));
    if
    :: again -> /* its node was taken for lost: the step is open once more */
        again = 0;
        do
        :: nempty(events) -> hear()
        :: due && nfull(known) -> tell()
        :: break
        od;
        goto close
    :: skip
    fi;
    published = step;
    step++;
    if
    :: step <= STEPS -> goto open
    :: else
    fi;
end:
    do
    :: events ? its, count, at
    od
}

init
{
    atomic {
        run worker();
        run node();
        run coordinator()
    }
}
