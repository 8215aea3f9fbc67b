//! A tail that exceeds a message comes in pages, ahead of the answer to the seal.

use bus_schemas::{Grant, GrantKind, SealAnswer, SealPage, SealedGrant, encode, limits};
use gpu_worker_core::sequencer::{Event, SequencerConfig};
use proptest::prelude::*;

use crate::bench::{Bench, MS, grant, id, run, starts};

/// Seals as a leader that takes pages; returns the pages and the answer.
fn sealed(bench: &mut Bench, epoch: u64) -> (Vec<SealPage>, SealAnswer) {
    let (mut pages, mut after): (Vec<SealPage>, _) = (Vec::new(), 0);
    loop {
        let reply = bench.seal_after(epoch, epoch, Some(after));
        assert!(encode(&reply).len() < limits::MESSAGE_BYTES);
        if let Some(answer) = reply.sealed {
            return (pages, answer);
        }
        let page = reply.page.expect("a page or the answer");
        assert_eq!((page.epoch, page.after), (epoch, after));
        after = page.tail.last().expect("a page has rows").position;
        pages.push(page);
    }
}

fn positions<'a>(tails: impl Iterator<Item = &'a Vec<SealedGrant>>) -> Vec<u64> {
    tails.flatten().map(|sealed| sealed.position).collect()
}

#[test]
fn whatever_was_accepted_and_not_recorded_is_handed_over() {
    let mut bench = Bench::new();
    bench.open(1);
    for _ in 0..60 {
        bench.order(&[run(1, 9, 9); 512]);
    }
    let (pages, answer) = sealed(&mut bench, 2);
    assert!(pages.len() >= 4, "{} pages", pages.len());
    let tails = pages.iter().map(|page| &page.tail);
    let all = positions(tails.chain([&answer.tail]));
    let expected: Vec<u64> = (1..=answer.position).collect();
    assert_eq!(all, expected);
    // The next leader gets the same, and so does a leader that asks again.
    assert_eq!(sealed(&mut bench, 3).0.len(), pages.len());
    let again = bench.seal_after(3, 3, Some(0)).page.expect("the first");
    assert_eq!(again.tail, pages[0].tail);
}

#[test]
fn a_tail_of_sessions_that_all_closed_is_handed_over_by_name() {
    let mut bench = Bench::new();
    for session in 1..=12_000 {
        bench.open(session);
        bench.order(&[grant(GrantKind::Close, session, 0, 0)]);
        bench.tell(Event::Closed {
            session: id(session),
        });
    }
    bench.after(5_000 * MS);
    let (pages, answer) = sealed(&mut bench, 2);
    let named = pages.iter().map(|page| &page.named).chain([&answer.named]);
    let mut named: Vec<_> = named.flatten().map(|it| it.session).collect();
    named.sort_unstable();
    named.dedup();
    assert_eq!(named.len(), 12_000);
}

#[test]
fn a_session_that_ends_between_the_pages_is_named() {
    let mut bench = Bench::configured(SequencerConfig {
        seal_rows: 2,
        ..SequencerConfig::default()
    });
    bench.open(1);
    bench.batch(1, 1, 4);
    let rows = [run(1, 1, 2), run(1, 3, 4), grant(GrantKind::Close, 1, 0, 0)];
    let started = starts(&bench.order(&rows));
    let first = bench.seal_after(2, 2, Some(0)).page.expect("a page");
    assert_eq!(first.named.len(), 1);
    for slice in started {
        bench.complete(slice, &[]);
    }
    bench.tell(Event::Closed { session: id(1) });
    let answer = bench.seal_after(2, 2, Some(2)).sealed.expect("the rest");
    assert_eq!(answer.tail.len(), 2);
    assert!(answer.sessions.is_empty());
}

#[test]
fn what_is_beyond_what_a_worker_keeps_is_named() {
    let mut bench = Bench::configured(SequencerConfig {
        tail: 4,
        ..SequencerConfig::default()
    });
    bench.open(1);
    for input in 2..=8 {
        let row = Grant {
            input,
            ..run(1, input - 1, input - 1)
        };
        bench.order(&[row]);
    }
    let answer = bench.seal(2, 2).sealed.unwrap();
    let kept: Vec<u64> = answer.tail.iter().map(|it| it.position).collect();
    assert_eq!(kept, [5, 6, 7, 8]);
    assert_eq!(answer.forgotten, Some((1, 4)));
    // Once something behind it is recorded, there is nothing to name.
    let mut bench = Bench::configured(SequencerConfig {
        tail: 2,
        ..SequencerConfig::default()
    });
    bench.open(1);
    for input in 2..=5 {
        let row = Grant {
            input,
            ..run(1, input - 1, input - 1)
        };
        bench.order(&[row]);
    }
    bench.recorded = 4;
    bench.order(&[]);
    let answer = bench.seal(2, 2).sealed.unwrap();
    assert_eq!((answer.tail.len(), answer.forgotten), (1, None));
}

proptest! {
    /// Pages of any size together with the answer are the tail: each position once, in order.
    #[test]
    fn pages_and_the_answer_are_the_tail(
        seal_rows in 1_usize..9,
        grants in 0_u64..60,
        recorded in 0_u64..60,
    ) {
        let mut bench = Bench::configured(SequencerConfig { seal_rows, ..SequencerConfig::default() });
        bench.open(1);
        for input in 2..grants + 2 {
            bench.order(&[Grant { input, ..run(1, input - 1, input - 1) }]);
        }
        bench.recorded = recorded;
        bench.order(&[]);
        let whole: Vec<u64> = (1..=grants + 1).filter(|at| *at > recorded).collect();
        let (pages, answer) = sealed(&mut bench, 2);
        for page in &pages {
            prop_assert!(page.tail.len() <= seal_rows);
        }
        let tails = pages.iter().map(|page| &page.tail);
        let all = positions(tails.chain([&answer.tail]));
        // The open grant's input is the first.
        prop_assert_eq!(&all[..], &whole[..]);
    }
}
