/* What nodes tell each other of steps, means and states (peers.c, aggregator.c,
 * coordinator.c, state_transfer.c; of node.c node_start, node_show, node_jump,
 * node_ask_state; of client.c wait_for_start, dsgd_next_mean, catch_up,
 * give_state): node 0 with the coordinator, node 1, a worker on each; a cutoff
 * that waits for all who live; workers taken for lost although they are only
 * slow, never both at once, and heard of again; rings that keep one mean, so
 * that whoever misses two needs another's state, also node 0's own worker, and
 * would be lost for good without the other.  Checked for every
 * interleaving: all come to the end of the run, and with all its means unless
 * they were taken for lost.
 *
 * A control message may not get through, once, and the sender knows; a bulk
 * message is sent when the last one was taken; a state has two pieces.  A state
 * is what its worker has applied; to ask again is to wait until nothing else
 * moves.  Each BREAK undoes one line that this rests on: the model must then
 * fail. */
#ifndef STEPS
#define STEPS 3
#endif
#define EPOCH_ENDS(step) ((step) == 1 || (step) == STEPS)
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef FAILURES
#define FAILURES 1
#endif
#define TRIES 3

mtype = { READY, COMMIT, BEHIND, RESYNCED, START, GIVE, END, PUBLISH, STATE };

byte published[2], started[2], assigned[2], applied[2];
byte box[2]; /* the announced state, plus 1 */
bool give[2], ended[2], was_lost[2];

chan event_0 = [2] of { mtype, byte };
chan event_1 = [2] of { mtype, byte };
chan up = [2] of { mtype, byte };       /* control: node 1 to coordinator */
chan up_bulk = [1] of { mtype, byte, byte };
chan down = [1] of { mtype, byte };     /* coordinator to node 1 */
chan down_bulk = [1] of { mtype, byte, byte };

/* The ring of a node has this step's mean. */
#define HAS(n, step)    ((step) == published[n] && (step) != 0)
#define SERVES(n, step) ((step) == published[n] || HAS(n, (step) + 1))
#ifdef BREAK_OVER
#define MAY_BEGIN(n) (started[n] > applied[n])
#else
#define MAY_BEGIN(n) (started[n] > applied[n] || published[n] > applied[n])
#endif

inline give_state()
{
    atomic {
        if
        :: give[me] ->
            give[me] = false;
            if
            :: box[me] < applied[me] + 1 -> box[me] = applied[me] + 1
            :: else
            fi
        :: else
        fi
    }
}

proctype worker(byte me; chan event)
{
    byte reduced, tries, seen;

begin:
    if
    :: MAY_BEGIN(me) -> goto may
    :: !MAY_BEGIN(me) && ended[me] -> goto over
    :: !MAY_BEGIN(me) && !ended[me] -> event!READY(applied[me] + 1)
    fi;
wait:
    if
    :: MAY_BEGIN(me)
    :: !MAY_BEGIN(me) && ended[me] -> goto over
    :: !MAY_BEGIN(me) && give[me] -> give_state(); goto wait
    fi;
may:
    give_state();
    atomic {
        reduced = applied[me] + 1;
        if
        :: published[me] > applied[me] || assigned[me] != reduced -> goto means
        :: else
        fi
    };
    event!COMMIT(reduced);
means:
    if
    :: published[me] > applied[me] && HAS(me, applied[me] + 1) ->
        atomic { applied[me]++; tries = 0 };
        goto means
    :: published[me] > applied[me] && !HAS(me, applied[me] + 1) ->
        atomic {
            if
            :: box[me] > applied[me] + 1 ->
                applied[me] = box[me] - 1;
                tries = 0
            :: else -> goto behind
            fi
        };
        event!RESYNCED(applied[me]);
        goto means
    :: published[me] <= applied[me] && applied[me] >= reduced -> goto begin
    :: published[me] <= applied[me] && applied[me] < reduced && ended[me] ->
        goto over
    :: published[me] <= applied[me] && applied[me] < reduced && give[me] ->
        give_state();
        goto means
    fi;
behind:
    if
    :: ended[me] -> goto over
    :: !ended[me] && tries == 0 ->
        atomic { tries++ };
        event!BEHIND(applied[me] + 1);
    :: !ended[me] && tries != 0
    fi;
    seen = published[me];
    if
    :: box[me] > applied[me] + 1 || published[me] != seen
    :: give[me] -> give_state()
    :: ended[me]
    :: timeout -> assert(tries < TRIES); atomic { tries++ };
        event!BEHIND(applied[me] + 1)
    fi;
    seen = 0;
    goto means;
over:
    assert(was_lost[me] || applied[me] == STEPS)
}

/* A worker of this node that can give a state: none but its own one. */
#define CAN_GIVE(n, least)                                              \
    (!give[n] && applied[n] != 0 && applied[n] >= least && SERVES(n, applied[n]))

/* node_show, node_start */
inline start_pending()
{
    if
    :: pending == published[1] + 1 && started[1] < pending ->
        assigned[1] = pending;
        started[1] = pending
    :: else
    fi;
    if
    :: pending <= published[1] + 1 -> pending = 0
    :: else
    fi
}

#define OTHER_STATE(n, least) (box[n] > (least) && SERVES(n, box[n] - 1))

proctype aggregator()
{
    byte pending, step, flag, least, got;
    bool gives;
    mtype kind;

end:
    do
    :: atomic { event_1?kind(step) ->
        if /* find_state: its own worker is who asks */
        :: kind == BEHIND && OTHER_STATE(1, step)
        :: else -> up!kind(step)
        fi;
        kind = 0; step = 0 }
    :: atomic { down?START(step) ->
#ifdef BREAK_PENDING
        if
        :: step == published[1] + 1 -> pending = step
        :: else
        fi;
#else
        pending = step;
#endif
        start_pending();
        step = 0 }
    :: atomic { down?GIVE(step) -> gives = true; least = step; step = 0 }
    :: atomic { down?END(step) -> ended[1] = true }
    :: atomic { down_bulk?PUBLISH(step, flag) ->
        if
        :: step == published[1] + 1 ->
            published[1] = step;
            if
            :: flag -> assigned[1] = step + 1; started[1] = step + 1
            :: else
            fi;
            start_pending()
        :: else
        fi;
        step = 0; flag = 0 }
    :: atomic { down_bulk?STATE(step, flag) -> /* state_receive */
        if
        :: flag == 0 -> got = step + 1
        :: flag == 1 && got == step + 1 ->
            got = 0;
            box[1] = (box[1] > step + 1 -> box[1] : step + 1);
#ifdef BREAK_JUMP
            skip
#else
            if /* node_jump */
            :: step > published[1] ->
                published[1] = step;
                started[1] = step;
                start_pending()
            :: else
            fi
#endif
        :: else
        fi;
        step = 0; flag = 0 }
    :: atomic { gives && len(up_bulk) == 0 && OTHER_STATE(1, least) ->
        up_bulk!STATE(box[1] - 1, 1); gives = false; least = 0 }
    :: atomic { gives && !OTHER_STATE(1, least) && CAN_GIVE(1, least) ->
        give[1] = true }
    od
}

/* Of the coordinator. */
byte step = 1, sent, unstarted, piece, out, ready[2], losses, failures;
bool wants[2], open, last, ending, end_sent, asked;
bool lost[2], working[2], arrived[2];

#define OWES(w)                                       \
    (!lost[w] && ((open && working[w] && !arrived[w]) || \
                  (!open && ready[w] < step)))
#define SETTLED(w) (!working[w] || arrived[w])
#define CAN_SEND   (len(down) == 0)

inline open_step()
{
    open = true;
    working[0] = !lost[0];
    working[1] = !lost[1];
    arrived[0] = false;
    arrived[1] = false
}

inline start_node()
{
    if
    :: CAN_SEND -> down!START(step)
    :: !CAN_SEND || failures < FAILURES ->
        failures = (CAN_SEND -> failures + 1 : failures);
#ifndef BREAK_UNSTARTED
        unstarted = step
#endif
    fi
}

inline on_event(w, kind, at)
{
    lost[w] = false;
    if
    :: kind == READY -> ready[w] = at
    :: kind == COMMIT ->
        arrived[w] = arrived[w] || (open && working[w] && at == step)
    :: kind == RESYNCED -> wants[w] = false
    :: kind == BEHIND -> wants[w] = true; asked = false
    fi
}

inline publish()
{
    published[0] = step;
    last = step == STEPS;
    if
    :: EPOCH_ENDS(step) -> step++; open = false
    :: else -> step++; open_step(); assigned[0] = step; started[0] = step
    fi;
    asked = false
}

/* A state of step `least` or a later one is needed on node 0. */
#define NEEDS_STATE(least)                                        \
    ((wants[0] && least == 1) ||                                  \
     ((wants[1] || (sent < published[0] && !HAS(0, sent + 1))) && \
      least == sent && !OTHER_STATE(0, sent)))

proctype coordinator()
{
    byte at;
    mtype kind;

end:
    do
    :: atomic { event_0?kind(at) ->
        if
        :: kind == BEHIND && OTHER_STATE(0, at) -> lost[0] = false
        :: else -> on_event(0, kind, at)
        fi;
        at = 0; kind = 0 }
    :: atomic { up?kind(at) -> on_event(1, kind, at); at = 0; kind = 0 }
    :: atomic { up_bulk?STATE(at, _) ->
        box[0] = (box[0] > at + 1 -> box[0] : at + 1);
        wants[0] = false; asked = false; at = 0 }
    /* taken for lost */
    :: atomic { losses < LOSSES && OWES(0) && !lost[1] ->
        lost[0] = true; was_lost[0] = true; working[0] = false; losses++ }
    :: atomic { losses < LOSSES && OWES(1) && !lost[0] ->
        lost[1] = true; was_lost[1] = true; working[1] = false; losses++ }
    /* tick_boundary */
    :: atomic { !open && !ending && !OWES(0) && !OWES(1) &&
                (!lost[0] || !lost[1]) ->
        if
        :: last -> ending = true; ended[0] = true
        :: else ->
            open_step(); assigned[0] = step; started[0] = step; start_node()
        fi }
    /* tick_open */
    :: atomic { open && SETTLED(0) && SETTLED(1) && (!lost[0] || !lost[1]) ->
        publish() }
    /* start_late */
    :: atomic { unstarted && CAN_SEND ->
        at = unstarted; unstarted = 0;
        if
        :: at == step && open -> start_node()
        :: else
        fi;
        at = 0 }
    /* send_state, send_mean */
    :: atomic { len(down_bulk) == 0 && out ->
        down_bulk!STATE(out - 1, piece);
        if
        :: piece == 0 -> piece = 1
        :: else ->
            piece = 0; sent = out - 1; out = 0; wants[1] = false;
#ifndef BREAK_RESTART
            if
            :: sent == published[0] && open -> start_node()
            :: else
            fi
#endif
        fi }
    :: atomic { len(down_bulk) == 0 && !out &&
                (wants[1] || (sent < published[0] && !HAS(0, sent + 1))) &&
                OTHER_STATE(0, sent) -> out = box[0] }
    :: atomic { len(down_bulk) == 0 && !out && HAS(0, sent + 1) &&
                !(wants[1] && OTHER_STATE(0, sent)) ->
        down_bulk!PUBLISH(sent + 1, sent + 1 < published[0] || open);
        sent++ }
    /* ask_state */
    :: atomic { NEEDS_STATE(1) && CAN_GIVE(0, 1) -> give[0] = true }
    :: atomic { NEEDS_STATE(sent) && CAN_GIVE(0, sent) -> give[0] = true }
#ifndef BREAK_GIVE
    :: atomic { NEEDS_STATE(1) && !CAN_GIVE(0, 1) && !wants[1] && sent >= 1 &&
                !asked && CAN_SEND -> down!GIVE(1); asked = true }
#endif
    /* pump_end */
    :: atomic { ending && !end_sent && !out && CAN_SEND &&
                (sent == published[0] || !HAS(0, sent + 1)) ->
        down!END(0); end_sent = true }
    od
}

init
{
    atomic {
        run worker(0, event_0);
        run worker(1, event_1);
        run aggregator();
        run coordinator()
    }
}
