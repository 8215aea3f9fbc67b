//! Cuts of the record: its replay begins at an anchor.

use scheduler_leader_core::replay::{
    Anchor, Replay, ReplayError, ReplayedPosition, beginning, replay,
};

use crate::world::{MS, World};

#[test]
#[expect(clippy::too_many_lines, reason = "steps that share state")]
fn a_record_that_was_cut_replays_from_an_anchor_to_the_same_chains() {
    let mut world = World::new(2, 2);
    world.settings(|settings| settings.record_max_bytes = 8 * 6_000);
    world.pass(250);
    world.open();
    world.pass(20);
    for round in 0..150 {
        world.submit(100);
        world.pass(33);
        if round == 70 {
            // A leader dies in between, with its unrecorded inputs.
            world.acknowledge = false;
            world.submit(100);
            world.pass(30);
            world.kill_leader(30 * MS);
            world.acknowledge = true;
            world.pass(60);
        }
    }
    world.pass(1_000);
    world.check();
    let (whole, finals) = (world.replay().unwrap(), world.finals());
    let of = |epoch, number, bytes: &Vec<u8>| (epoch, number, bytes.clone());
    let blocks = world.blocks.iter();
    let blocks: Vec<_> = blocks
        .map(|(epoch, number, bytes, _)| of(*epoch, *number, bytes))
        .collect();
    // The replay that reaches the anchors keeps nothing else, and sees the record in small parts.
    let (mut anchors, mut onward) = (Vec::<Anchor>::new(), Replay::forgetful());
    // A second one that keeps everything reports the same ends.
    let (mut keeping, mut told, mut also_told) = (Replay::default(), Vec::new(), Vec::new());
    let mut most = 0;
    for (epoch, number, bytes) in &blocks {
        onward.add(*epoch, *number, bytes).unwrap();
        onward.advance(|row| told.push(row)).unwrap();
        most = most.max(onward.kept());
        keeping.add(*epoch, *number, bytes).unwrap();
        keeping.advance(|row| also_told.push(row)).unwrap();
        if let Some(anchor) = onward.anchor()
            && anchors.last().is_none_or(|last| last.epoch < anchor.epoch)
        {
            anchors.push(anchor.clone());
        }
    }
    assert!(anchors.len() > 3, "{}", anchors.len());
    let unchained = |row: &ReplayedPosition| ReplayedPosition {
        chain: None,
        ..row.clone()
    };
    let [told, also_told] =
        [told, also_told].map(|rows| rows.iter().map(unchained).collect::<Vec<_>>());
    assert!(told.len() > 200, "{}", told.len());
    assert_eq!(told, also_told);
    // The data that it keeps does not grow with the record.
    assert!(keeping.kept() > 2 * most, "{most} of {}", keeping.kept());
    assert!(most < 200, "{most}");
    // Without a cut, or with only the older of two cuts, the replay begins there.
    let mut marked = blocks.clone();
    marked.extend(
        anchors
            .iter()
            .map(|it| (it.epoch, Anchor::NUMBER, it.encode())),
    );
    assert_eq!(beginning(&marked).unwrap(), None);
    marked.retain(|(epoch, _, _)| *epoch >= anchors[1].epoch);
    assert_eq!(beginning(&marked).unwrap().as_ref(), Some(&anchors[1]));
    for anchor in &anchors[1..] {
        let mut cut = blocks.clone();
        cut.retain(|(epoch, _, _)| *epoch >= anchor.epoch);
        let at = cut.len();
        cut.push((anchor.epoch, Anchor::NUMBER, anchor.encode()));
        // A later leader appended again the blocks of earlier epochs that it did not know to be
        // stored: they are not cut off. They are the end of one epoch, and all of another.
        let mut before = blocks.iter().filter(|it| it.0 < anchor.epoch).rev();
        let end = before.next().expect("an epoch before");
        cut.push(end.clone());
        let whole_epoch = before.find(|it| it.0 < end.0).map(|it| it.0);
        cut.extend(
            blocks
                .iter()
                .filter(|it| Some(it.0) == whole_epoch)
                .cloned(),
        );
        assert_eq!(beginning(&cut).unwrap().as_ref(), Some(anchor));
        let rest = replay(&cut, &finals).unwrap();
        assert_eq!(rest.digest, whole.digest);
        assert_eq!(rest.skipped, 0);
        let behind = |row: &&ReplayedPosition| {
            let mut workers = anchor.workers.iter();
            let at = workers.find(|at| at.incarnation == row.incarnation);
            at.is_none_or(|at| row.position > at.tail.position)
        };
        let expected: Vec<_> = whole.positions.iter().filter(behind).cloned().collect();
        assert_eq!(rest.positions, expected, "the same rows");
        let before = whole.positions.len() - expected.len();
        assert_eq!(anchor.positions as usize, before);
        assert_eq!(rest.adopted + anchor.adopted, whole.adopted);
        assert_eq!(rest.inputs + anchor.inputs, whole.inputs);
        assert_eq!(rest.anchor.as_ref(), Some(anchor));
        // And from there to the later anchors.
        let mut again = Replay::forgetful();
        for (epoch, number, bytes) in &cut {
            again.add(*epoch, *number, bytes).unwrap();
        }
        again.advance(|_| {}).unwrap();
        assert_eq!(again.anchor(), anchors.last());
        // An anchor that differs from the earlier record is noticed.
        let mut wrong = anchor.clone();
        wrong.workers[0].tail.chain = wrong.workers[1].tail.chain;
        cut[at].2 = wrong.encode();
        if wrong != *anchor {
            let failed = replay(&cut, &finals).unwrap_err();
            assert!(matches!(failed, ReplayError::Disagrees { .. }), "{failed}");
        }
    }
}
