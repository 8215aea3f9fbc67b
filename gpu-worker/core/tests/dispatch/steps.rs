//! Random steps of a dispatch.

use proptest::prelude::*;

pub(crate) const SESSIONS: u64 = 4;
pub(crate) const IMAGES: u8 = 3;

/// An op of a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Sync,
    Alloc,
    Free,
    Launch(u32),
    Load(u32, u8),
    /// A copy from a transfer of its own.
    Staged,
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Start(u64, Vec<What>),
    /// An image gets its final state: refused, or ready.
    Prepared(u64, u8, bool),
    /// The session's oldest transfer becomes whole.
    Whole(u64),
    Answer(bool),
    /// The pager did not decide: it is to be asked again.
    Later,
    Stop(u64),
    /// The session with the open question is stopped.
    StopAsked,
    Gone(u64),
    /// The session's memory is to leave the device.
    Leave(u64),
    /// The device completes a slice of the session.
    Complete(u64),
    /// The session's memory is back, if it is away and no slice of it is on the device.
    Return(u64),
}

fn whats() -> impl Strategy<Value = Vec<What>> {
    let what = prop_oneof![
        4 => Just(What::Sync),
        2 => Just(What::Alloc),
        1 => Just(What::Free),
        2 => (0..2_u32).prop_map(What::Launch),
        2 => (0..2_u32, 0..IMAGES).prop_map(|(slot, name)| What::Load(slot, name)),
        2 => Just(What::Staged),
    ];
    prop::collection::vec(what, 1..6)
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let session = 1..=SESSIONS;
    let step = prop_oneof![
        36 => (session.clone(), whats()).prop_map(|(of, ops)| Step::Start(of, ops)),
        12 => (session.clone(), 0..IMAGES, prop::bool::weighted(0.9))
            .prop_map(|(of, name, ready)| Step::Prepared(of, name, ready)),
        24 => session.clone().prop_map(Step::Whole),
        24 => prop::bool::weighted(0.2).prop_map(Step::Answer),
        4 => Just(Step::Later),
        1 => session.clone().prop_map(Step::Stop),
        2 => Just(Step::StopAsked),
        1 => session.clone().prop_map(Step::Gone),
        4 => session.clone().prop_map(Step::Leave),
        16 => session.clone().prop_map(Step::Complete),
        6 => session.prop_map(Step::Return),
    ];
    prop::collection::vec(step, 0..120)
}
