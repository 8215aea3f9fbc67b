//! A kernel queue gives every op once, in order, with any fate of the intents on their way.

use bus_schemas::{
    Column, CostClass, CostRun, Intent, KernelKey, LeaderId, LeaderNotice, Rejected, SessionId,
    WIRE_VERSION, decode, encode,
};
use proptest::prelude::*;
use scheduler_leader_core::{KernelQueue, QueueAction, QueueEvent, QueueOpening, QueueProgress};

const MS: u64 = 1_000_000;
/// Ops that a client may have queued and not done, as the queue's notices say.
const CREDIT: u64 = 65_536;

fn queue(queued: u64) -> KernelQueue {
    let cluster = "lab".parse().unwrap();
    let opening = QueueOpening {
        session: SessionId(5),
        tenant: "chat".parse().unwrap(),
        epoch: 3,
        queued,
    };
    KernelQueue::new(&cluster, LeaderId(9), &opening)
}

/// Op `n` is a launch of kernel `n`, so that the outputs can be told apart.
fn intent(first: u64, last: u64) -> Vec<u8> {
    let runs: Vec<_> = (first..=last)
        .map(|op| CostRun {
            key: KernelKey(op),
            bytes: 0,
            count: 1,
            class: CostClass::Launch,
        })
        .collect();
    let mut packed = Vec::new();
    encode(&Intent {
        v: WIRE_VERSION,
        first,
        count: runs.len() as u32,
        runs: Column::pack(&runs, &mut packed),
    })
}

/// The output: kernels in order, and the last notice.
#[derive(Default)]
struct Out {
    ops: Vec<u64>,
    notice: Option<LeaderNotice>,
    rejected: usize,
}

impl Out {
    fn take(&mut self, actions: &mut Vec<QueueAction>) {
        for action in actions.drain(..) {
            match action {
                QueueAction::Ready { first, runs } => {
                    let next = self.ops.last().map_or(first, |last| last + 1);
                    assert_eq!(first, next, "no gap, nothing twice");
                    self.ops.extend(runs.iter().map(|run| run.key.0));
                    assert!(runs.iter().all(|run| run.count == 1));
                }
                QueueAction::Publish { subject, bytes } if subject.ends_with(".leader") => {
                    self.notice = Some(decode(&bytes).unwrap());
                }
                QueueAction::Publish { bytes, .. } => {
                    let _: Rejected = decode(&bytes).unwrap();
                    self.rejected += 1;
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Lost, duplicated, reordered, overlapping: ops that are announced again arrive in the end.
    #[test]
    fn ops_come_out_once_and_in_order(
        start in 0..1_000u64,
        cuts in prop::collection::vec(1..40u64, 1..30),
        order in prop::collection::vec((any::<prop::sample::Index>(), 0..60u64), 0..80),
    ) {
        let mut queue = queue(start);
        let (mut actions, mut out, mut now) = (Vec::new(), Out::default(), MS);
        let mut batches = Vec::new();
        let mut last = start;
        for count in cuts {
            batches.push((last + 1, last + count));
            last += count;
        }
        for (at, back) in order {
            let (first, last) = batches[at.index(batches.len())];
            // Cut differently when sent again, and reaching back over earlier ops.
            let first = first.saturating_sub(back).max(1);
            queue.handle(now, QueueEvent::Message(&intent(first, last)), &mut actions);
            out.take(&mut actions);
            now += MS / 3;
        }
        // A client that obeys the notices: it sends again all ops that are not covered, until they
        // are.
        for _ in 0..100 {
            while let Some(at) = queue.next_wakeup().filter(|at| *at <= now) {
                queue.handle(now.max(at), QueueEvent::Timer, &mut actions);
                out.take(&mut actions);
            }
            let queued = queue.queued();
            if queued == last {
                break;
            }
            let to = last.min(queued + 64);
            queue.handle(now, QueueEvent::Message(&intent(queued + 1, to)), &mut actions);
            out.take(&mut actions);
            now += MS;
        }
        let expected: Vec<_> = (start + 1..=last).collect();
        let out_ops: Vec<_> = out.ops.iter().copied().filter(|op| *op > start).collect();
        prop_assert_eq!(out_ops, expected);
        now += 5 * MS;
        queue.handle(now, QueueEvent::Timer, &mut actions);
        out.take(&mut actions);
        prop_assert_eq!(out.notice.unwrap().queued, last, "the client is told");
        prop_assert_eq!(out.rejected, 0);
    }

    /// For any bytes, nothing breaks, and only announced ops are queued.
    #[test]
    fn garbage_is_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut queue = queue(0);
        let (mut actions, mut out) = (Vec::new(), Out::default());
        queue.handle(MS, QueueEvent::Message(&bytes), &mut actions);
        out.take(&mut actions);
        prop_assert!(out.ops.is_empty() == (queue.queued() == 0));
        prop_assert!(out.rejected == 1 || !out.ops.is_empty());
    }
}

#[test]
fn nothing_above_the_credit_is_taken() {
    let mut queue = queue(0);
    let (mut actions, mut out) = (Vec::new(), Out::default());
    let run = CostRun {
        key: KernelKey(1),
        bytes: 0,
        count: CREDIT as u32 + 1,
        class: CostClass::Launch,
    };
    let mut packed = Vec::new();
    let bytes = encode(&Intent {
        v: WIRE_VERSION,
        first: 1,
        count: run.count,
        runs: Column::pack(&[run], &mut packed),
    });
    queue.handle(MS, QueueEvent::Message(&bytes), &mut actions);
    out.take(&mut actions);
    assert_eq!((out.ops.len(), queue.queued()), (0, 0));
    assert_eq!(out.notice.as_ref().unwrap().queue_through, CREDIT);
    // Once ops are done the queue has room for more, and tells the client.
    let done = CREDIT / 2;
    queue.handle(MS, progress(done, false), &mut actions);
    out.take(&mut actions);
    assert_eq!(out.notice.unwrap().queue_through, CREDIT + done);
}

fn progress(done: u64, alone: bool) -> QueueEvent<'static> {
    let granted = done;
    QueueEvent::Progress(QueueProgress {
        granted,
        done,
        alone,
    })
}

/// Permission to gather intents can wait for the next notice; its end cannot.
#[test]
fn a_client_hears_at_once_that_it_is_no_longer_alone() {
    let mut queue = queue(0);
    let (mut actions, mut out) = (Vec::new(), Out::default());
    queue.handle(MS, QueueEvent::Timer, &mut actions);
    out.take(&mut actions);
    out.notice = None;
    queue.handle(MS, progress(0, true), &mut actions);
    out.take(&mut actions);
    assert!(out.notice.is_none());
    queue.handle(MS, progress(0, false), &mut actions);
    out.take(&mut actions);
    assert!(out.notice.is_some_and(|notice| !notice.alone));
}

#[test]
fn counts_that_do_not_add_up_are_rejected() {
    for (first, count, runs) in [(1, 5, 4), (0, 4, 4), (u64::MAX, 4, 4), (1, 0, 0)] {
        let mut queue = queue(0);
        let (mut actions, mut out) = (Vec::new(), Out::default());
        let run = CostRun {
            key: KernelKey(1),
            bytes: 0,
            count: 1,
            class: CostClass::Launch,
        };
        let mut packed = Vec::new();
        let bytes = encode(&Intent {
            v: WIRE_VERSION,
            first,
            count,
            runs: Column::pack(&vec![run; runs], &mut packed),
        });
        queue.handle(MS, QueueEvent::Message(&bytes), &mut actions);
        out.take(&mut actions);
        assert_eq!(
            (out.rejected, out.ops.len()),
            (1, 0),
            "{first} {count} {runs}"
        );
    }
}

/// A new leader's queue greets until the client is heard. The client believes that all ops are
/// queued, and would not speak by itself.
#[test]
fn a_silent_client_is_greeted_again() {
    let mut queue = queue(10);
    let (mut actions, mut notices, mut now) = (Vec::new(), 0, MS);
    for _ in 0..40 {
        queue.handle(now, QueueEvent::Timer, &mut actions);
        notices += actions.drain(..).count();
        match queue.next_wakeup() {
            Some(at) => now = at,
            None => break,
        }
    }
    assert_eq!(queue.next_wakeup(), None, "not for ever");
    assert!((5..=12).contains(&notices), "{notices}");
    assert!(now > 5_000 * MS, "for some seconds");
}
